import unittest

from postage.prices import around, price


class Prices(unittest.TestCase):
    def test_a_light_box_costs_the_lowest_rate(self):
        self.assertEqual(price(850, 24, 18, 10), 4.10)

    def test_a_bulky_one_costs_more(self):
        self.assertEqual(price(9_600, 110, 40, 35), 16.70)

    def test_it_does_not_matter_which_side_is_called_what(self):
        self.assertEqual(around(20, 120, 20), around(120, 20, 20))
