"""The subcommands of ``tensorclass scores``, and what they share: reading files, printing, exit codes."""
