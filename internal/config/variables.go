package config

import (
	"slices"
	"strings"
)

// otherVariables returns the variables with the prefix of settings that are none: those
// of the client commands, those that a step gets (an executor may itself run in a
// step), and those of the project's own tests. A name with "_" at its end stands for
// all names that begin with it.
func otherVariables() []string {
	return []string{"SERVER", "TOKEN", "CONTEXT", "OUTPUT", "RUN_", "TASK_", "ITEM", "ITEM_", "TEST_", "CHAOS_", "REQUIRE", "SUITES", "SOAK", "GATE_LOG"}
}

// UnknownVariables returns a sentence for each variable with Drover's prefix that no
// part of Drover reads. A variable with the form of a setting is not among them: Load
// refuses it if it is unknown. environ has the form of os.Environ.
func UnknownVariables(environ []string) []string {
	var sentences []string
	for _, assignment := range environ {
		variable, _, _ := strings.Cut(assignment, "=")
		name, ok := strings.CutPrefix(variable, variablePrefix)
		if !ok || strings.Contains(name, variableLevels) || slices.ContainsFunc(otherVariables(), func(other string) bool {
			return name == other || strings.HasSuffix(other, "_") && strings.HasPrefix(name, other)
		}) {
			continue
		}
		sentence := variable + " is no variable of Drover"
		if setting := settingLike(name); setting != "" {
			sentence += "; did you mean " + setting + "?"
		}
		sentences = append(sentences, sentence)
	}
	slices.Sort(sentences)
	return sentences
}

// settingLike returns the variable of the setting that has the same letters: the
// levels of a setting are separated by two underscores.
func settingLike(name string) string {
	letters := func(s string) string { return strings.NewReplacer("_", "", levels, "").Replace(strings.ToLower(s)) }
	for key := range settings() {
		if letters(key) == letters(name) {
			return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, levels, variableLevels))
		}
	}
	return ""
}
