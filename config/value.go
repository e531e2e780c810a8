package config

import (
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
)

// Value returns a setting by its key as a text, "" for one that does not
// exist. Secrets come out as they are.
func (c Config) Value(key string) string {
	k := koanf.New(levels)
	if err := k.Load(structs.Provider(c, "koanf"), nil); err != nil {
		return ""
	}
	return k.String(key)
}
