"""Makes a virtual environment that sees what this Python has, such as PyTorch and CuPy, and installs a wheel into it,
without a network: python3 fresh-environment.py WHEEL DIRECTORY

Works where Python was installed without `ensurepip` or is in a virtual environment itself.
"""

import pathlib
import site
import subprocess
import sys
import sysconfig
import venv
import zipfile


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
    show = "import scatterheap as s; print(s.__version__, s.__file__, s.gpu_count(), 'GPUs')"
    subprocess.run([python, "-c", show], check=True)


if __name__ == "__main__":
    main()
