"""The lenient parser of command lines: it finds every simple command of a line, also inside other commands.

It never fails: a malformed part extends to the end of the line. It finds what is written out, and proves nothing. Used for
dangerous commands, for the files that a command runs or writes, and for the rules of the configuration.
Read in this order: simple_command (the values), word_expansion, parser, continuations, nested_commands (the entry point).
May import: kin_nb.core.safety.shell.command_prefix.
"""
