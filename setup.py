"""Builds the modules that every operation runs through with Cython, where that works.

These are the modules with a `.pxd` file beside them, which says what in there has C
types, if anything has; the sources are the same. All of them are built or none:
without Cython or a C compiler, or with LUMIJIT_NO_COMPILED=1, lumijit is installed as
plain Python. So it is when it is installed in place, where a compiled module would
hide edits.

Then kernels are built that need no trace (`compiler/record/standard.py`), for the
processor that this runs on.
"""

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDERS = {
    "dsl": "lumijit",
    "compiler": "lumijit.compiler",
    "runtime": "lumijit.runtime",
}
DIRECTIVES = {"language_level": 3, "annotation_typing": False}


def extensions():
    """Return an extension for each module with a `.pxd` file."""
    found = []
    for folder, package in FOLDERS.items():
        for path in sorted(Path(folder).rglob("*.pxd")):
            if path.name != "__init__.pxd":
                parts = path.relative_to(folder).with_suffix("").parts
                source = path.with_suffix(".py").as_posix()
                found.append(Extension(".".join([package, *parts]), [source]))
    return found


class BuildCompiled(build_ext):
    """Builds all extensions, from the tree as it is installed, or none."""

    def finalize_options(self):
        """Compile as many modules at once as there are cores."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self):
        """Build all, or say why not."""
        wanted, self.extensions = self.extensions, []
        if self.inplace or getattr(self, "editable_mode", False):
            return
        if os.environ.get("LUMIJIT_NO_COMPILED", "0") not in ("", "0"):
            return
        self.compile(wanted)
        try:
            self.build_kernels()
        except Exception as error:
            self.warn(f"kernels are built when first needed: {error}")

    def compile(self, wanted):
        """Build all extensions, or say why not."""
        try:
            # Modules refer to each other by the names that they have once installed.
            self.run_command("build_py")
            self.translate(wanted)
            self.extensions = wanted
            super().run()
        except Exception as error:
            self.warn(f"lumijit is installed as plain Python: {error}")
            self.discard(wanted)
            self.extensions = []

    def translate(self, wanted):
        """Write the C sources of extensions."""
        from Cython.Build import cythonize

        tree = Path(self.build_temp, "sources").resolve()
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(Path(self.build_lib, "lumijit"), tree / "lumijit")
        before = Path.cwd()
        # So that tracebacks name files as they lie in the package.
        os.chdir(tree)
        try:
            names = [extension.name.replace(".", "/") for extension in wanted]
            sources = [f"{name}.py" for name in names]
            # (Other processes than copies of this one would begin with this file.)
            is_copied = multiprocessing.get_start_method() == "fork"
            jobs = self.parallel if is_copied else 0
            cythonize(
                sources, compiler_directives=DIRECTIVES, quiet=True, nthreads=jobs
            )
        finally:
            os.chdir(before)
        for extension, name in zip(wanted, names, strict=True):
            extension.sources = [str(tree / f"{name}.c")]
            if sys.platform != "win32":
                extension.extra_compile_args = ["-O2", "-g0", "-w"]
            if sys.platform == "linux":
                # Compiled modules mostly call Python's functions: straight, that is.
                extension.extra_compile_args.append("-fno-plt")

    def build_kernels(self):
        """Build what needs no trace, for this processor; on others nobody finds it."""
        package = Path(self.build_lib).resolve()
        folder = package / "lumijit" / "runtime" / "prebuilt"
        shutil.rmtree(folder, ignore_errors=True)
        chosen = {k: v for k, v in os.environ.items() if not k.startswith("LUMIJIT_")}
        chosen["LUMIJIT_CACHE_DIR"] = str(folder)
        # What is installed are sources and kernels only.
        chosen["PYTHONDONTWRITEBYTECODE"] = "1"
        program = [sys.executable, "-m", "lumijit.compiler.record.standard"]
        subprocess.run(program, cwd=package, env=chosen, check=True, timeout=600)
        for other in set(folder.iterdir()) - set(folder.glob("*.kernel")):
            other.unlink()

    def discard(self, unwanted):
        """Remove what has been built of some extensions."""
        for extension in unwanted:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCompiled})
