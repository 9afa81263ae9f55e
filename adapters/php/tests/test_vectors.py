"""The vectors of spec/vectors, by the adapter's own codec (vectors.php)."""

import subprocess
import unittest

from tests.driver import PHP, TESTS


class Vectors(unittest.TestCase):
    def test_vectors(self):
        output = subprocess.run([PHP, str(TESTS / "vectors.php")], capture_output=True, text=True, timeout=120)
        self.assertEqual(output.returncode, 0, output.stdout[-4000:] + output.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
