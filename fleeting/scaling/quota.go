package scaling

import (
	"math"
	"strings"
)

// Weight is the share of a quota that an instance takes, in thousandths. It is
// an integer, so that sums are the same on all machines.
type Weight int64

// weightExponent makes one large machine weigh more than several small ones
// with the same total memory, because it is harder to get and to use well.
const weightExponent = 1.25

// WeightOfMemory returns the default weight of an instance with the given
// memory in bytes: its GiB to the power of 1.25.
func WeightOfMemory(bytes int64) Weight {
	return weightOf(math.Pow(float64(max(0, bytes))/(1<<30), weightExponent))
}

func weightOf(x float64) Weight { return max(1, Weight(math.Round(min(x, MaxWeight)*1000))) }

// Units returns the weight in the unit of the settings.
func (w Weight) Units() float64 { return float64(w) / 1000 }

// Claim is the current and the desired use of a quota by one fleet.
type Claim struct {
	Fleet     string
	Weight    Weight // of one of its instances
	Instances int    // current, in any state: instances count until they are gone
	Desired   int    // without the quota
}

// Allot returns how many instances each fleet may have, in the order of the
// claims. The sum of their weights stays within the limit, unless the current
// instances exceed it already. In that case fleets may have fewer than they
// have, those with the largest share first. Free capacity goes to the fleet
// with the smallest share, one instance at a time. If the next instance of that
// fleet does not fit, the other fleets must not take the capacity either, so
// that small instances cannot starve large ones. While one fleet lacks
// capacity, the others may not have more than they need.
func Allot(limit Weight, claims []Claim) []int {
	shares := make([]int, len(claims))
	free := limit
	for i, c := range claims {
		shares[i] = c.Instances
		free -= c.Weight * Weight(c.Instances)
	}
	for free < 0 {
		i := heaviest(claims, shares)
		if i < 0 {
			break
		}
		shares[i]--
		free += claims[i].Weight
	}
	shortage := false
	for {
		i := lightest(claims, shares, limit)
		if i < 0 {
			break
		}
		if claims[i].Weight > free {
			shortage = true
			break
		}
		shares[i]++
		free -= claims[i].Weight
	}
	if shortage {
		for i, c := range claims {
			shares[i] = min(shares[i], max(0, c.Desired))
		}
	}
	return shares
}

// heaviest returns the fleet with instances that has the largest share.
func heaviest(claims []Claim, shares []int) int {
	best := -1
	for i := range claims {
		if shares[i] > 0 && (best < 0 || before(claims, shares, best, i)) {
			best = i
		}
	}
	return best
}

// lightest returns the fleet that needs more and has the smallest share. A
// fleet whose single instance exceeds the whole quota gets none.
func lightest(claims []Claim, shares []int, limit Weight) int {
	best := -1
	for i, c := range claims {
		if shares[i] < c.Desired && c.Weight <= limit && (best < 0 || before(claims, shares, i, best)) {
			best = i
		}
	}
	return best
}

func before(claims []Claim, shares []int, i, j int) bool {
	a, b := claims[i].Weight*Weight(shares[i]), claims[j].Weight*Weight(shares[j])
	if a != b {
		return a < b
	}
	return strings.Compare(claims[i].Fleet, claims[j].Fleet) < 0
}
