# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""Write the ELF kernel that a bzImage carries xz-compressed.

usage: extract_kernel.py BZIMAGE VMLINUX

Under emulation the kernel's own decompression would take longer than the rest of the boot. Exits 1
where there is no such payload; a bzImage boots as it is, only slower.
"""
import lzma
import pathlib
import sys

XZ = b"\xfd7zXZ\0"
ELF = b"\x7fELF"


def elf_of(image):
    """The first xz payload that is an ELF file, or None."""
    start = image.find(XZ)
    while start >= 0:
        try:
            content = lzma.LZMADecompressor().decompress(image[start:])
        except lzma.LZMAError:
            content = b""
        if content.startswith(ELF):
            return content
        start = image.find(XZ, start + 1)
    return None


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    content = elf_of(source.read_bytes())
    if content is None:
        print(f"{source}: no xz-compressed ELF kernel inside", file=sys.stderr)
        return 1
    target.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
