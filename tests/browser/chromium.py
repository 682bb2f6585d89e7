#!/usr/bin/env python3
"""The Chromium that AIOSCHED_CHROMIUM names, without news of network interfaces.

Whenever an interface of the machine is made or removed, Chromium aborts what it has asked for; other tests do that all
the time (containers, networks of the kernel). It hears of interfaces by sockets of AF_NETLINK only, and a filter of
system calls refuses those; where there is no such filter, nothing is filtered. Source: seccomp(2).
"""

import ctypes
import os
import platform
import struct
import sys

AF_NETLINK, EAFNOSUPPORT = 16, 97
SET_NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where `struct seccomp_data` has them
ALLOW, FAIL_WITH = 0x7FFF0000, 0x00050000
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # architecture and number of socket(2)


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_netlink(architecture: int, socket: int) -> None:
    """Let socket(2) fail for AF_NETLINK in this process and in all that it starts."""
    instructions = (  # code, jump if equal, jump if not, value
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 0, 5, architecture),
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_EQUAL, 0, 3, socket),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_EQUAL, 0, 1, AF_NETLINK),
        (RETURN, 0, 0, FAIL_WITH | EAFNOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    )
    code = b"".join(struct.pack("HBBI", *each) for each in instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    program = ctypes.byref(Program(len(instructions), code))
    if libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(SET_SECCOMP, FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls can be set")


if __name__ == "__main__":
    if sys.platform == "linux" and platform.machine() in MACHINES:
        refuse_netlink(*MACHINES[platform.machine()])
    browser = os.environ["AIOSCHED_CHROMIUM"]
    os.execv(browser, [browser, *sys.argv[1:]])  # noqa: S606
