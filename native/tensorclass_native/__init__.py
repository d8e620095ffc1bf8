"""Libraries of native code, which ``tensorclass`` looks for in this folder."""
