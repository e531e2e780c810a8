package run

import (
	"maps"
	"math"
	"math/big"
	"strconv"
	"strings"
)

var quantityPattern = newPattern(`^([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?$`)

// ParseCPU reads an amount of CPU in Kubernetes notation ("2", "0.5", "500m")
// and returns it in billionths of a CPU, rounded up. It is above 0. The error
// has CodeInvalid.
func ParseCPU(s string) (int64, error) {
	n, ok := quantity(s, 1e9)
	if !ok {
		return 0, Errorf(CodeInvalid, "%s is not an amount of CPU such as 2, 0.5 or 500m", brief(s))
	}
	return n, nil
}

// ParseMemory reads an amount of memory in Kubernetes notation ("512M", "4Gi",
// "1073741824") and returns it in bytes, rounded up. It is above 0. The error
// has CodeInvalid.
func ParseMemory(s string) (int64, error) {
	n, ok := quantity(s, 1)
	if !ok {
		return 0, Errorf(CodeInvalid, "%s is not an amount of memory such as 512Mi or 4Gi", brief(s))
	}
	return n, nil
}

// quantity returns s times unit, rounded up, and whether s is a number above 0.
func quantity(s string, unit int64) (int64, bool) {
	if n, ok := wholeQuantity(s, unit); ok {
		return n, true
	}
	return anyQuantity(s, big.NewRat(unit, 1))
}

// wholeQuantity is quantity for whole numbers with a suffix whose result fits into 64
// bits. Nearly all amounts are of this kind, and amounts are compared very often.
func wholeQuantity(s string, unit int64) (int64, bool) {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	n, err := strconv.ParseInt(s[:digits], 10, 64)
	if err != nil || n == 0 || digits > 18 {
		return 0, false
	}
	times, parts := suffixOf(s[digits:])
	if times == 0 || n > math.MaxInt64/unit-parts || n*unit >= math.MaxInt64/times {
		return 0, false
	}
	return (n*unit*times + parts - 1) / parts, true
}

func anyQuantity(s string, unit *big.Rat) (int64, bool) {
	m := quantityPattern.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	text, suffix := m[1], m[2]
	if suffix != "" && suffix != "E" && strings.ContainsAny(suffix[:1], "eE") && !strings.HasSuffix(suffix, "i") {
		text, suffix = text+suffix, ""
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, false
	}
	r.Mul(r, unit).Mul(r, big.NewRat(suffixOf(suffix)))
	whole, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() || whole.Sign() <= 0 || whole.Int64() == math.MaxInt64 {
		return 0, false
	}
	return whole.Int64(), true
}

// suffixOf returns how many times one a suffix is, divided by parts. For other texts,
// times is 0.
func suffixOf(suffix string) (times, parts int64) {
	switch suffix {
	case "n":
		return 1, 1e9
	case "u":
		return 1, 1e6
	case "m":
		return 1, 1e3
	case "":
		return 1, 1
	}
	const decimal, binary = "kMGTPE", "KMGTPE"
	unit, rest := suffix[:1], suffix[1:]
	if i := strings.Index(binary, unit); rest == "i" && i >= 0 {
		return 1 << (10 * (i + 1)), 1
	}
	i := strings.Index(decimal, unit)
	if rest != "" || i < 0 {
		return 0, 1
	}
	for times = 1000; i > 0; i-- {
		times *= 1000
	}
	return times, 1
}

// Amount is a number of things, or a percentage of them such as 25%.
type Amount string

// Parse returns the number, and whether it is a percentage. The error has
// CodeInvalid.
func (a Amount) Parse() (n int, percent bool, err error) {
	text, percent := strings.CutSuffix(string(a), "%")
	n, err = strconv.Atoi(text)
	if err != nil || n < 0 || strings.HasPrefix(text, "+") {
		return 0, percent, Errorf(CodeInvalid, "%s is not a number or a percentage such as 25%%", brief(string(a)))
	}
	return n, percent, nil
}

// of returns the amount of a total. An amount that is not valid is 0.
func (a Amount) of(total int, roundUp bool) int {
	n, percent, err := a.Parse()
	switch {
	case err != nil:
		return 0
	case !percent:
		return n
	case roundUp:
		return (total*n + 99) / 100
	}
	return total * n / 100
}

// Capacity is an amount of resources: what an executor offers, or what a task
// reserves.
type Capacity struct {
	CPU    int64 // in billionths of a CPU
	Memory int64 // in bytes
	GPUs   int64
}

// Labels by which executors state their resources: see Resources.Labels.
const (
	LabelCPU    = "drover-cpu"
	LabelMemory = "drover-memory"
	LabelGPUs   = "drover-gpus"
)

// MaxGPUs is the most GPUs that an executor may offer, or a task may ask for.
const MaxGPUs = 1024

// StatesResources reports whether a label states resources.
func StatesResources(label string) bool {
	return label == LabelCPU || label == LabelMemory || label == LabelGPUs
}

// atLeast reports whether a label states resources, and at least the required ones.
func atLeast(label, have, required string) bool {
	parse := func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
	switch label {
	case LabelCPU:
		parse = ParseCPU
	case LabelMemory:
		parse = ParseMemory
	case LabelGPUs:
	default:
		return false
	}
	n, err := parse(have)
	least, err2 := parse(required)
	return err == nil && err2 == nil && n >= least
}

// Labels returns resources as labels with amounts in canonical form, so that the
// executors of a task are found by what they offer as they are by their labels:
// HasLabels compares these labels as amounts. It ignores what is not a valid amount.
func (r Resources) Labels() map[string]string {
	labels := map[string]string{}
	if n, err := ParseCPU(r.CPU); err == nil {
		labels[LabelCPU] = formatAmount(n, []unit{{1e9, ""}, {1e6, "m"}, {1, "n"}})
	}
	if n, err := ParseMemory(r.Memory); err == nil {
		labels[LabelMemory] = formatAmount(n, []unit{{1 << 40, "Ti"}, {1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}, {1, ""}})
	}
	if r.GPUs > 0 {
		labels[LabelGPUs] = strconv.Itoa(r.GPUs)
	}
	return labels
}

// ResourcesOf returns the resources that labels state.
func ResourcesOf(labels map[string]string) Resources {
	r := Resources{CPU: labels[LabelCPU], Memory: labels[LabelMemory]}
	r.GPUs, _ = strconv.Atoi(labels[LabelGPUs])
	return r
}

// WithoutResources returns the labels that state no resources.
func WithoutResources(labels map[string]string) map[string]string {
	rest := maps.Clone(labels)
	maps.DeleteFunc(rest, func(name, _ string) bool { return StatesResources(name) })
	return rest
}

// Capacity returns the amounts; 0 for those that are not stated.
func (r Resources) Capacity() Capacity {
	c := Capacity{GPUs: int64(r.GPUs)}
	c.CPU, _ = ParseCPU(r.CPU)
	c.Memory, _ = ParseMemory(r.Memory)
	return c
}

// Slots returns how many of an executor's slots an amount is worth, if all its slots
// together are the whole: at least 1.
func (c Capacity) Slots(whole Capacity, slots int) int {
	worth := 1
	for _, part := range [][2]int64{{c.CPU, whole.CPU}, {c.Memory, whole.Memory}, {c.GPUs, whole.GPUs}} {
		if part[1] > 0 {
			const rounding = 1e-9
			worth = max(worth, int(math.Ceil(float64(part[0])*float64(slots)/float64(part[1])-rounding)))
		}
	}
	return worth
}

type unit struct {
	size int64
	text string
}

// formatAmount returns n in the largest of the units that divides it.
func formatAmount(n int64, units []unit) string {
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.text
		}
	}
	return strconv.FormatInt(n, 10)
}
