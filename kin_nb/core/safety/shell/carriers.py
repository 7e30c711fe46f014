"""The programs that run the command which follows in their words (`sudo`, `strace`, `chroot`), and where in these it begins."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ARCHITECTURE = re.compile(
    r"linux\d\d|uname26|i\d86|x86_64|aarch64|alpha|ia64|(arm|loongarch|mips|parisc|ppc|riscv|s390|sparc)\w*"
)


@dataclass(frozen=True)
class Carrier:
    """`letters`, `long`: its options whose value is the next word. `operands`: words between its options and the command.

    `amounts`: whether it may be given numbers there (`timeout 5`). `in_a_shell`: a shell reads what follows, as one text.
    """

    letters: str = ""
    long: str = ""
    operands: int = 0
    amounts: bool = True
    in_a_shell: bool = False

    def begin(self, words: list[str]) -> int:
        """The index of the command's first word."""
        index = 1
        while index < len(words):
            word = words[index]
            if word.startswith("-"):
                index += 2 if self._takes_the_next(word) else 1
            elif (self.amounts and word[:1].isdigit()) or (words[0].endswith("setarch") and _is_architecture(word)):
                index += 1
            else:
                break
        return min(index + self.operands, len(words))

    def _takes_the_next(self, option: str) -> bool:
        if option.startswith("--"):
            return option[2:] in self.long.split()
        first = next((at for at, letter in enumerate(option) if at and letter in self.letters), 0)
        return first == len(option) - 1  # else its value is in the same word, or it has none


def _is_architecture(word: str) -> bool:
    return _ARCHITECTURE.fullmatch(word) is not None


_SUDO = "user group host prompt close-from chdir chroot role type other-user command-timeout"
_NAMESPACES = "root wd setuid setgid map-user map-group map-users map-groups propagation target"
CARRIERS = {
    **dict.fromkeys(("command", "builtin", "nohup", "setsid", "busybox", "coproc", "fakeroot", "unbuffer"), Carrier()),
    **dict.fromkeys(("setarch", "linux32", "linux64", "i386", "x86_64", "uname26"), Carrier()),
    **dict.fromkeys(("unshare", "nsenter"), Carrier("RwSGt", _NAMESPACES)),
    "sudo": Carrier("ugpCrtUDhRT", _SUDO),
    "doas": Carrier("uC"),
    "pkexec": Carrier("", "user"),
    "env": Carrier("uC", "unset chdir"),
    "timeout": Carrier("sk", "signal kill-after"),
    "nice": Carrier("n", "adjustment"),
    "ionice": Carrier("cn", "class classdata"),
    "taskset": Carrier(),
    "chrt": Carrier("TPD"),
    "xargs": Carrier("InPLdasE", "max-args max-procs max-chars delimiter arg-file"),
    "exec": Carrier("a"),
    "stdbuf": Carrier("ioe", "input output error"),
    "time": Carrier("of", "output format"),
    "watch": Carrier("n", "interval", in_a_shell=True),
    "flock": Carrier("wE", "timeout conflict-exit-code", operands=1, amounts=False),
    "chroot": Carrier("", "userspec groups", operands=1, amounts=False),
    "strace": Carrier("abeEIoOpPsSuUX", "output trace columns string-limit env user attach"),
    "ltrace": Carrier("aADeFlnopsuwx", "output align indent library"),
}
"""By the program's name."""
