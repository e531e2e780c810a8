package scaling

import (
	"math"
	"strings"
)

// Weight is what an instance takes of a quota, in thousandths: whole numbers,
// so that sums are the same on all machines.
type Weight int64

// weightExponent makes one large machine weigh more than several small ones
// with as much memory: it is the harder to get, and to use well.
const weightExponent = 1.25

// WeightOfMemory returns the weight of an instance with so many bytes of
// memory, unless its fleet says another: its GiB to the power of 1.25.
func WeightOfMemory(bytes int64) Weight {
	return weightOf(math.Pow(float64(max(0, bytes))/(1<<30), weightExponent))
}

func weightOf(x float64) Weight { return max(1, Weight(math.Round(min(x, MaxWeight)*1000))) }

// Units returns the weight as people write it.
func (w Weight) Units() float64 { return float64(w) / 1000 }

// Claim is what one fleet has and wants of a quota.
type Claim struct {
	Fleet     string
	Weight    Weight // of one of its instances
	Instances int    // it has, in whatever state: leaving ones weigh until they are gone
	Wanted    int    // it would have if there were no quota
}

// Allot returns how many instances each fleet may have, in the order of the
// claims. The sum of their weights stays within the limit, unless more is
// there already: then fleets may have fewer than they have, those that weigh
// most first. What is free goes to the fleet that has least, one instance at a
// time; a fleet whose next instance does not fit keeps others from taking the
// rest, so that small instances can not starve large ones. While one lacks
// something, others may not have more than they want.
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
	lacking := false
	for {
		i := lightest(claims, shares, limit)
		if i < 0 {
			break
		}
		if claims[i].Weight > free {
			lacking = true
			break
		}
		shares[i]++
		free -= claims[i].Weight
	}
	if lacking {
		for i, c := range claims {
			shares[i] = min(shares[i], max(0, c.Wanted))
		}
	}
	return shares
}

// heaviest returns the fleet with instances whose share weighs most.
func heaviest(claims []Claim, shares []int) int {
	best := -1
	for i := range claims {
		if shares[i] > 0 && (best < 0 || before(claims, shares, best, i)) {
			best = i
		}
	}
	return best
}

// lightest returns the fleet that wants more and whose share weighs least. One
// whose instances are over the whole quota gets none.
func lightest(claims []Claim, shares []int, limit Weight) int {
	best := -1
	for i, c := range claims {
		if shares[i] < c.Wanted && c.Weight <= limit && (best < 0 || before(claims, shares, i, best)) {
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
