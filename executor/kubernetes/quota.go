package kubernetes

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// exceedsQuota reports whether a pod requests more than the whole quota, so
// that waiting does not help. The server's message has the form "exceeded
// quota: name, requested: a=1,b=2, used: a=3,b=4, limited: a=3,b=4".
func exceedsQuota(text string) bool {
	requested, limited := amounts(text, "requested: "), amounts(text, "limited: ")
	for name, want := range requested {
		if limit, ok := limited[name]; ok && want.Cmp(limit) > 0 {
			return true
		}
	}
	return false
}

// amounts parses the list that follows a word.
func amounts(text, word string) map[string]resource.Quantity {
	_, list, _ := strings.Cut(text, word)
	list, _, _ = strings.Cut(list, ", ")
	found := make(map[string]resource.Quantity)
	for entry := range strings.SplitSeq(list, ",") {
		name, amount, _ := strings.Cut(entry, "=")
		if q, err := resource.ParseQuantity(amount); err == nil {
			found[name] = q
		}
	}
	return found
}
