import unittest

from rainfall.stats import longest_dry_spell, mean, median, summary

WEEK = [4.2, 0.0, 0.0, 11.6, 2.4, 0.1, 3.0]


class Figures(unittest.TestCase):
    def test_mean(self):
        self.assertAlmostEqual(mean([1.0, 2.0, 6.0]), 3.0)

    def test_median_of_an_odd_and_an_even_number_of_readings(self):
        self.assertEqual(median([5.0, 1.0, 3.0]), 3.0)
        self.assertEqual(median([4.0, 1.0, 3.0, 2.0]), 2.5)

    def test_longest_dry_spell(self):
        self.assertEqual(longest_dry_spell(list(WEEK)), 2)


class Summary(unittest.TestCase):
    def test_figures_of_a_week(self):
        self.assertEqual(
            summary(list(WEEK)),
            {"total": 21.3, "mean": 3.04, "median": 2.4, "dry_spell": 2, "latest": 3.0},
        )


if __name__ == "__main__":
    unittest.main()
