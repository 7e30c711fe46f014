import unittest
from datetime import date

from web.page import sentences

LINES = ["line,to,departs,days", "1,Skerry Island,06:40,daily", "3,Lighthouse,23:30,weekend"]


class Page(unittest.TestCase):
    def test_a_weekday_has_the_daily_boats(self):
        self.assertEqual(list(sentences(LINES, date(2026, 7, 1))), ["Line 1 to Skerry Island departs at 06:40."])

    def test_a_weekend_has_those_of_the_weekend_too(self):
        self.assertEqual(len(list(sentences(LINES, date(2026, 7, 4)))), 2)
