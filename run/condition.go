package run

import "strings"

// Mask returns the set of the conditions, 0 for none.
func Mask(conditions []Condition) OnMask {
	var m OnMask
	for _, c := range conditions {
		switch c {
		case OnSuccess:
			m |= MaskSuccess
		case OnFailure:
			m |= MaskFailure
		case OnSkipped:
			m |= MaskSkipped
		}
	}
	return m
}

// OrDefault returns the mask, and MaskSuccess if it is empty.
func (m OnMask) OrDefault() OnMask {
	if m == 0 {
		return MaskSuccess
	}
	return m
}

// String returns the conditions of the mask, as in "success or skipped".
func (m OnMask) String() string {
	var words []string
	for _, c := range []struct {
		mask OnMask
		word Condition
	}{{MaskSuccess, OnSuccess}, {MaskFailure, OnFailure}, {MaskSkipped, OnSkipped}} {
		if m.OrDefault()&c.mask != 0 {
			words = append(words, string(c.word))
		}
	}
	return strings.Join(words, " or ")
}
