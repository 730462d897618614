package metrics

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Count(0), "0"}, {Count(1531), "1,531"}, {Count(159277), "159,277"}, {Count(-1234567.6), "-1,234,568"}, {Count(999.6), "1,000"}, {Count(-0.4), "0"},
		{Short(606), "606"}, {Short(4426), "4.4k"}, {Short(9.14), "9.1"}, {Short(159277), "159k"}, {Short(1.5e6), "1.5M"}, {Short(2e9), "2.0G"}, {Short(99_949), "99.9k"},
		{Rate(9.14), "9.1"}, {Rate(1317.32), "1,317"}, {Rate(99.96), "100"}, {Rate(86), "86.0"},
		{GiB(5.47 * (1 << 30)), "5.47 GiB"}, {GiB(91.2 * (1 << 30)), "91.2 GiB"}, {GiB(118 * (1 << 30)), "118 GiB"}, {GiB(1945.6 * (1 << 30)), "1.9 TiB"}, {GiB(0), "0.00 GiB"},
		{Bytes(812), "812 B"}, {Bytes(4100), "4.1 kB"}, {Bytes(999.6), "1.0 kB"}, {Bytes(3.2e6), "3.2 MB"}, {Bytes(1e20), "100000 PB"},
		{Percent(0.874), "87 %"}, {Percent(0.004), "0.4 %"}, {Percent(0), "0 %"}, {Percent(1), "100 %"},
		{Age(4 * time.Second), "4 s"}, {Age(19 * time.Minute), "19 m"}, {Age(3*time.Hour + 12*time.Minute), "3 h 12 m"}, {Age(2 * time.Hour), "2 h"}, {Age(5*24*time.Hour + 2*time.Hour), "5 d 2 h"}, {Age(48 * time.Hour), "2 d"}, {Age(-time.Second), "0 s"},
		{FigureText(Figure{}, Count), Dash}, {FigureText(Fixed(12, time.Time{}, ""), Count), "12"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestClock(t *testing.T) {
	now := time.Date(2026, 2, 24, 23, 30, 0, 0, time.UTC) // 00:30 on the 25th in CET
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{now.Add(-time.Hour), "Tue 23:30"}, {now.Add(2 * time.Hour), "02:30"}, {now.Add(5 * 24 * time.Hour), "Mon 00:30"},
		{now.Add(30 * 24 * time.Hour), "27 Mar 00:30"}, {now.Add(-20 * 24 * time.Hour), "5 Feb 00:30"}, {time.Time{}, Dash},
	} {
		if got := Clock(c.at, now, 3600, "CET"); got != c.want {
			t.Errorf("Clock(%s) = %q, want %q", c.at, got, c.want)
		}
	}
}

func TestFigure(t *testing.T) {
	now := base
	young, old, fixed := Known(1, now, 2*time.Second, "a"), Known(2, now.Add(-7*time.Second), 2*time.Second, "b"), Fixed(3, now.Add(-time.Hour), "c")
	if young.Stale(now) || !old.Stale(now) || fixed.Stale(now) || (Figure{}).Stale(now) {
		t.Error("stale is older than three intervals, of what is known and ages")
	}
	if (Figure{}).Or(young) != young || old.Or(young) != old {
		t.Error("Or takes the first that is known")
	}
}
