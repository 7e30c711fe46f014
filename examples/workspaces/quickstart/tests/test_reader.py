import unittest
from datetime import date

from rainfall.reader import read_days


class ReadDays(unittest.TestCase):
    def test_comments_and_blank_lines_are_skipped(self):
        days = read_days(["# Lyme", "", "2025-11-01,4.2  # gauge cleaned"])
        self.assertEqual(days, {date(2025, 11, 1): 4.2})

    def test_a_bad_line_is_named(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            read_days(["2025-11-01,4.2", "2025-11-02 0.0"])


if __name__ == "__main__":
    unittest.main()
