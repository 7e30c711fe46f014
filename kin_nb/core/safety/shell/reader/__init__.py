"""The lenient reader of command lines: the simple commands of a line, also inside others, as far as reading alone can tell.

It never fails and never refuses: what is malformed ends with the line. So it finds what is spelled out, and proves nothing.
For the fence against dangerous commands, the files that a command runs or writes, and the rules of the configuration.
May import: kin_nb.core.safety.shell.command_prefix.
"""
