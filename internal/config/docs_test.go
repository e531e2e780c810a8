package config_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/internal/config"
	"github.com/drover-run/drover/internal/testenv/pages"
)

const configurationPage = "configuration.md"

// TestPage_settings compares the settings with the table of the page, both ways.
func TestPage_settings(t *testing.T) {
	t.Parallel()
	pages.RequireSame(t, configurationPage, config.Keys(), pages.FirstColumn(pages.Table(t, configurationPage, "## Settings")))
}

// TestPage_defaults checks the defaults of the page that are plain values.
func TestPage_defaults(t *testing.T) {
	t.Parallel()
	defaults, checked := config.Default(), 0
	for _, row := range pages.Table(t, configurationPage, "## Settings") {
		keys, values := pages.Quoted(row[0]), strings.Split(row[1], ", ")
		if len(keys) != len(values) {
			continue // described, or none
		}
		for i, key := range keys {
			onPage := pages.Quoted(values[i])
			if len(onPage) != 1 || values[i] != "`"+onPage[0]+"`" || strings.Contains(onPage[0], ".") && !strings.Contains(onPage[0], ":") {
				continue // described, or the value of another setting
			}
			require.Equal(t, plainValue(defaults.Value(key)), plainValue(onPage[0]), "the default of %s on docs/%s", key, configurationPage)
			checked++
		}
	}
	require.Greater(t, checked, 30)
}

// plainValue returns the same text for durations that are written differently.
func plainValue(text string) string {
	if d, err := time.ParseDuration(text); err == nil {
		return d.String()
	}
	return text
}

// TestPage_variables checks that each variable of a setting on the page stands
// for a setting.
func TestPage_variables(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`DROVER_[A-Z0-9]+__[A-Z0-9_]+`).FindAllString(pages.Read(t, configurationPage), -1)
	require.NotEmpty(t, found)
	for _, name := range found {
		key := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "DROVER_"), "__", "."))
		require.Contains(t, config.Keys(), key, "docs/%s has the variable %s, which is no setting", configurationPage, name)
	}
}
