"""The examples run, and say what they are to show."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

from devices import require_gpu, skip

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


class Examples(unittest.TestCase):
    def run_example(self, name, *arguments):
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def test_exercises(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "map.svg")
            ran = self.run_example("exercises.py", str(file))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("40 used, 60 free", ran.stdout)
            self.assertIn("30 MiB used in a scope, 10 after it", ran.stdout)
            self.assertIn("1 blocks of 200 bytes are live", ran.stdout)
            self.assertRegex(ran.stdout, r"\d+\.\d% fragmented")
            self.assertTrue(file.read_text().startswith("<svg"))

    def test_a_map_of_a_heap(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "map.png")
            ran = self.run_example("heap_map.py", str(file))
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("Snapshot(2000 blocks", ran.stdout)
            self.assertIn("0 blocks are left", ran.stdout)
            self.assertTrue(file.read_bytes().startswith(b"\x89PNG"))

    def test_kernels_of_numba_and_cupy(self):
        for name, module in [("numba_neighbours.py", "numba_cuda"), ("cupy_table.py", "cupy")]:
            with self.subTest(example=name):
                require_gpu(name)
                if importlib.util.find_spec(module) is None:
                    skip(name, f"{module} is not installed")
                ran = self.run_example(name, "3000")
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                self.assertRegex(ran.stdout, "the same, and 0 blocks are left")

    def test_training_refuses_what_makes_no_sense(self):
        for arguments, text in [
            (["--steps", "3"], "use more"),
            (["--scenario", "file"], "--record FILE"),
            (["--allocator", "other"], "scatterheap"),
        ]:
            ran = self.run_example("train_transformer.py", *arguments)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(text, ran.stderr)

    def test_training_is_the_same_with_both_allocators(self):
        require_gpu("training with PyTorch")
        if importlib.util.find_spec("torch") is None:
            skip("training with PyTorch", "torch is not installed")
        small = ["--layers", "2", "--width", "64", "--batch", "8", "--length", "32"]
        ran = self.run_example("train_transformer.py", *small, "--steps", "20")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("all 20 losses are equal, bit by bit", ran.stdout)
        with tempfile.TemporaryDirectory() as directory:
            recording, scenario = pathlib.Path(directory, "r.csv"), pathlib.Path(directory, "s.csv")
            files = ["--record", str(recording), "--scenario", str(scenario)]
            ran = self.run_example("train_transformer.py", *small, "--steps", "8", *files)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            lines = scenario.read_text().splitlines()
        self.assertEqual(lines[0], "thread,operation,id,bytes")
        operations = [line.split(",")[1] for line in lines[1:]]
        self.assertGreater(operations.count("a"), 50)
        self.assertEqual(operations.count("a"), operations.count("f"))


if __name__ == "__main__":
    unittest.main()
