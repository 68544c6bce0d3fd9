"""What forge starts as its compiler: hands the request on to compiler.js, which is loaded already.

Takes socket and version from the environment, AIOUM_SOLC_SOCKET and AIOUM_SOLC_VERSION. Imports next to
nothing, as it is started several times for every mutant.
"""

import os
import socket
import sys

if "--version" in sys.argv:
    print("solc, the solidity compiler commandline interface\nVersion:", os.environ["AIOUM_SOLC_VERSION"])
else:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ["AIOUM_SOLC_SOCKET"])
        connection.sendall(os.fsencode(os.getcwd()) + b"\n" + sys.stdin.buffer.read())
        connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(1 << 20):
            sys.stdout.buffer.write(chunk)
