package docker

import (
	"math"
	"math/big"
	"strings"

	"github.com/drover-run/drover/run"
)

// quantity reads a number in Kubernetes notation ("2", "500m", "4Gi", "512M")
// as a multiple of 1/scale, rounded up. The error has CodeInvalid.
func quantity(text string, scale int64) (int64, error) {
	number := strings.TrimRight(text, "KMGTPEikm")
	factor, ok := quantitySuffix(text[len(number):])
	// big.Rat also accepts exponents and fractions, at unbounded cost.
	plain := len(number) <= 20 && strings.Trim(number, "0123456789.") == ""
	var value *big.Rat
	parsed := false
	if plain {
		value, parsed = new(big.Rat).SetString(number)
	}
	if !ok || !plain || !parsed || value.Sign() <= 0 {
		return 0, run.Errorf(run.CodeInvalid, "%q is not a quantity such as 2, 500m, 512M or 4Gi", text)
	}
	value.Mul(value, factor)
	value.Mul(value, new(big.Rat).SetInt64(scale))
	whole, rest := new(big.Int).QuoRem(value.Num(), value.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() || whole.Int64() == math.MaxInt64 {
		return 0, run.Errorf(run.CodeInvalid, "quantity %q is too large", text)
	}
	return whole.Int64(), nil
}

func quantitySuffix(suffix string) (factor *big.Rat, ok bool) {
	switch suffix {
	case "":
		return big.NewRat(1, 1), true
	case "m":
		return big.NewRat(1, 1000), true
	}
	unit, binary := strings.CutSuffix(suffix, "i")
	power := int64(strings.Index("kMGTPE", unit)) + 1
	if binary {
		power = int64(strings.Index("KMGTPE", unit)) + 1
	}
	if len(unit) != 1 || power == 0 {
		return nil, false
	}
	base := big.NewInt(1000)
	if binary {
		base = big.NewInt(1024)
	}
	return new(big.Rat).SetInt(new(big.Int).Exp(base, big.NewInt(power), nil)), true
}
