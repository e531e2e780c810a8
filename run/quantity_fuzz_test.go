package run

import (
	"math/big"
	"testing"
)

// FuzzQuantity compares the short way to read an amount with the general one.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"0", "1", "500m", "1n", "999999999999999999", "9223372036854775807", "9223372036u", "4Gi", "8Ei", "7Ei", "9E", "12E-1", "007", "1."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, unit := range []int64{1, 1e9} {
			got, ok := wholeQuantity(s, unit)
			if !ok {
				continue
			}
			if want, valid := anyQuantity(s, big.NewRat(unit, 1)); !valid || got != want {
				t.Errorf("%q times %d is %d by the short way, and %d, %v by the general one", s, unit, got, want, valid)
			}
		}
	})
}
