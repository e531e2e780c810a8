package scaling_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/fleeting/scaling"
)

func TestPeriod_Contains(t *testing.T) {
	t.Parallel()
	tests := []struct {
		period string
		at     string
		want   bool
	}{
		{"* * * * *", "2026-03-17T00:00:59Z", true},
		{"1 * * * *", "2026-03-17T08:01:30Z", true},
		{"1 * * * *", "2026-03-17T08:02:00Z", false},
		{"* 9-17 * * mon-fri", "2026-03-17T17:59:00Z", true}, // a Tuesday
		{"* 9-17 * * mon-fri", "2026-03-17T18:00:00Z", false},
		{"* 9-17 * * MON-FRI", "2026-03-21T12:00:00Z", false},
		{"* * * * 0", "2026-03-22T12:00:00Z", true},
		{"* * * * 7", "2026-03-22T12:00:00Z", true},
		{"* * * * 6-7", "2026-03-22T12:00:00Z", true},
		{"* * * * fri-sun", "2026-03-22T12:00:00Z", true},
		{"* * * * fri-sun", "2026-03-19T12:00:00Z", false},
		{"* * * * 1-7/2", "2026-03-22T12:00:00Z", true},
		{"* * * * 0-0", "2026-03-19T12:00:00Z", false},
		{"* * * * */6", "2026-03-22T12:00:00Z", true}, // Sunday and Saturday
		{"* * * * */6", "2026-03-19T12:00:00Z", false},
		{"*/15 * * * *", "2026-03-17T08:45:00Z", true},
		{"*/15 * * * *", "2026-03-17T08:46:00Z", false},
		{"5/20 * * * *", "2026-03-17T08:45:00Z", true},
		{"* 22-23,0-5 * * *", "2026-03-17T03:45:00Z", true},
		{"* * 13 * 5", "2026-03-13T00:00:00Z", true}, // the 13th, or a Friday
		{"* * 13 * 5", "2026-03-20T00:00:00Z", true},
		{"* * 13 * 5", "2026-03-19T00:00:00Z", false},
		{"* * */2 * 5", "2026-03-20T00:00:00Z", false}, // an odd day and a Friday
		{"* * * dec *", "2026-12-31T23:59:59Z", true},
		{"* * * 1-11 *", "2026-12-31T23:59:59Z", false},
	}
	for _, tt := range tests {
		t.Run(tt.period+" "+tt.at, func(t *testing.T) {
			t.Parallel()
			p, err := scaling.ParsePeriod(tt.period)
			require.NoError(t, err)
			at, err := time.Parse(time.RFC3339, tt.at)
			require.NoError(t, err)
			require.Equal(t, tt.want, p.Contains(at))
		})
	}
}

func TestParsePeriod_refuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                      "0 fields",
		"* * * *":               "4 fields",
		"* * * * * *":           "6 fields",
		"@hourly":               "1 fields",
		"60 * * * *":            `minute: "60" is not a number from 0 to 59`,
		"* 22-6 * * *":          `"22-6" ends before it begins; write 22-23,0-6`,
		"* * 0 * *":             "day of the month: ",
		"* * * foo *":           "month: ",
		"* * * * 8":             "weekday: ",
		"*/0 * * * *":           `"0" is not a step`,
		"1,,2 * * * *":          `"" is not a number`,
		"+1 * * * *":            `"+1" is not a number`,
		"-1 * * * *":            "minute: ",
		"*-5 * * * *":           "minute: ",
		"1/99999999999 * * * *": "is not a step",
	} {
		_, err := scaling.ParsePeriod(text)
		require.ErrorContains(t, err, want, text)
	}
}

// FuzzParsePeriod checks that every valid period answers for every minute.
func FuzzParsePeriod(f *testing.F) {
	for _, text := range []string{"* * * * *", "*/5 9-17 1,15 jan-mar mon-fri", "0 0 31 2 7", "59/7 23 * * sun-sat/2", "TZ=UTC", "1-0 * * * *", "* * * * 0-7/7"} {
		f.Add(text, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		p, err := scaling.ParsePeriod(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		at := time.Unix(unix%(1<<40), 0).UTC()
		require.Equal(t, p.Contains(at), p.Contains(at.Truncate(time.Minute)), "the result is the same for the whole minute")
	})
}
