import unittest

from postage.labels import label


class Labels(unittest.TestCase):
    def test_it_says_weight_size_and_cost(self):
        self.assertEqual(label("Ada Byron", 850, 24, 18, 10), "Ada Byron         0.8 kg  24 x 18 x 10 cm   4.10")

    def test_a_bulky_parcel_is_marked(self):
        self.assertTrue(label("Gertrude Jekyll", 9_600, 110, 40, 35).endswith("16.70 BULKY"))
