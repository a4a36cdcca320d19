"""Makes a virtual environment that sees what this Python has, such as PyTorch and CuPy, and installs a wheel into it,
without a network: python3 fresh-environment.py WHEEL DIRECTORY [NUMBA]

NUMBA is an archive with Numba for CPython 3.12, which is unpacked if this is one and has none.
Works where Python was installed without `ensurepip` or is in a virtual environment itself.
"""

import pathlib
import site
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile


def add_numba(python, packages, archive):
    """Unpacks Numba, if it is missing or too old, and was brought along."""
    if subprocess.run([python, "-c", "from numba.cuda import cgutils"], capture_output=True).returncode == 0:
        print("Numba is there")
    elif not archive.is_file() or sys.version_info[:2] != (3, 12) or sys.implementation.name != "cpython":
        print("Numba is not there, and none for this Python was brought along")
    else:
        with tarfile.open(archive) as files:
            files.extractall(packages, filter="data")
        # After outer.pth, by its name. NumPy 2.5 has no `row_stack` any more, which numba-cuda 0.30 looks for when it is imported.
        line = "import numpy; hasattr(numpy, 'row_stack') or setattr(numpy, 'row_stack', numpy.vstack)\n"
        (packages / "outer_numpy.pth").write_text(line)
        print("Numba was brought along")


def main():
    wheel, directory = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    venv.EnvBuilder(system_site_packages=True, clear=True, with_pip=False).create(directory)
    python = directory / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True)
    packages = pathlib.Path(asked.stdout.strip())
    # If this Python is in a virtual environment, the new one would see only what is outside of it.
    seen = {*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "outer.pth").write_text("".join(f"{path}\n" for path in sorted(seen)))

    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    options = ["--no-index", "--no-deps", "--force-reinstall", str(wheel)]
    installed = subprocess.run([*pip, *options], capture_output=True, text=True)
    if installed.returncode != 0:
        reason = (installed.stderr.strip().splitlines() or ["it said nothing"])[-1]
        print(f"pip cannot install here ({reason}), so the wheel is unpacked")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    if len(sys.argv) > 3:
        add_numba(python, packages, pathlib.Path(sys.argv[3]))
    show = "import scatterheap as s; print(s.__version__, s.__file__, s.gpu_count(), 'GPUs')"
    subprocess.run([python, "-c", show], check=True)


if __name__ == "__main__":
    main()
