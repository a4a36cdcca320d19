"""Recordings become scenarios."""

import pathlib
import random
import tempfile
import unittest

import scatterheap
from scatterheap import traces


def line(operation, block, size="", thread="0"):
    return {"thread": thread, "operation": operation, "id": str(block), "size": str(size)}


class Scenarios(unittest.TestCase):
    def test_slots_are_used_again_and_nothing_is_left(self):
        rows = traces.scenario(
            [
                line("free", 3),  # From before.
                line("malloc", 7, 100),
                line("malloc", 8, 200, "1"),
                line("free", 7),
                line("malloc", 9, 300),
            ]
        )
        expected = [
            ("0", "a", 0, "100"),
            ("1", "a", 1, "200"),
            ("0", "f", 0, "100"),
            ("0", "a", 0, "300"),
            ("0", "f", 0, "300"),
            ("1", "f", 1, "200"),
        ]
        self.assertEqual(rows, expected)
        with self.assertRaisesRegex(scatterheap.Error, "realloc"):
            traces.scenario([line("realloc", 1, 5)])

    def test_a_recording_is_converted(self):
        random_numbers = random.Random(2)
        with tempfile.TemporaryDirectory() as directory:
            recording, output = pathlib.Path(directory, "r.csv"), pathlib.Path(directory, "s.csv")
            memory = scatterheap.Resource("cpu", f"trace={recording},caching")
            live = []
            for _ in range(300):
                if live and random_numbers.random() < 0.45:
                    memory.deallocate(*live.pop(random_numbers.randrange(len(live))))
                else:
                    size = random_numbers.randrange(1, 100_000)
                    live.append((memory.allocate(size), size))
            memory.flush()
            allocations = traces.convert(recording, output, 100, 250)
            header, *rows = output.read_text().splitlines()
        self.assertEqual(header, "thread,operation,id,bytes")
        slots = {}
        for row in rows:
            _, operation, slot, size = row.split(",")
            if operation == "a":
                self.assertNotIn(slot, slots)
                slots[slot] = size
            else:
                self.assertEqual(slots.pop(slot), size)
        self.assertEqual(slots, {})
        self.assertEqual(allocations * 2, len(rows))
        self.assertGreater(allocations, 50)


if __name__ == "__main__":
    unittest.main()
