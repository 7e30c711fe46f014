import unittest
from datetime import date

from board.rows import rows

LINES = ["line,to,departs,days", "1,Skerry Island,06:40,daily", "3,Lighthouse,23:30,weekend"]


class Board(unittest.TestCase):
    def test_a_weekday_in_winter_has_the_daily_boats(self):
        self.assertEqual(list(rows(LINES, date(2026, 1, 14))), ["06:40  1  SKERRY ISLAND"])

    def test_a_weekend_in_winter_has_those_of_the_weekend_too(self):
        self.assertEqual(len(list(rows(LINES, date(2026, 1, 17)))), 2)
