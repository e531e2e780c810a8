package podpatch_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"

	"github.com/drover-run/drover/executor/kubernetes/podpatch"
)

// TestApply_as_apimachinery compares the results with those of
// k8s.io/apimachinery, for random pods and patches.
func TestApply_as_apimachinery(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		pod, patch := encode(rt, podOf(rt, false)), encode(rt, podOf(rt, true))
		wantJSON, wantErr := strategicpatch.StrategicMergePatch(pod, patch, corev1.Pod{})
		gotJSON, err := podpatch.Apply(pod, patch)
		require.Equal(rt, wantErr == nil, err == nil, "%s\n%s\n%v\n%v", pod, patch, wantErr, err)
		if err != nil {
			return
		}
		want, wantErr := decode(wantJSON)
		got, err := decode(gotJSON)
		require.Equal(rt, wantErr == nil, err == nil, "%s\n%s\n%v\n%v", pod, patch, wantErr, err)
		if err == nil {
			require.Equal(rt, want, got, "%s\n%s", pod, patch)
		}
	})
}

// decode decodes a pod as the driver does: a directive that is left is an unknown
// field.
func decode(data []byte) (corev1.Pod, error) {
	var pod corev1.Pod
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&pod)
	return pod, err
}

func TestApply_refuses(t *testing.T) {
	t.Parallel()
	for patch, fault := range map[string]string{
		`{"spec":{"$setElementOrder/containers":[{"name":"a"}]}}`: "not supported",
		`{"spec":{"$patch":"merge"}}`:                             "unknown directive",
		`{"spec":{"containers":[{"name":"a","$patch":"odd"}]}}`:   "unknown directive",
		`{"spec":{"containers":[{"image":"x"}]}}`:                 "lacks the field name",
		`{"spec":{"containers":["x"]}}`:                           "different types",
		`{"spec":{"odd":1}}`:                                      "",
		`{`:                                                       "read the patch",
	} {
		_, err := podpatch.Apply([]byte(`{"spec":{"containers":[{"name":"a"}]}}`), []byte(patch))
		if fault == "" {
			require.NoError(t, err, patch) // the caller decodes strictly
			continue
		}
		require.ErrorContains(t, err, fault, patch)
	}
}

func encode(t *rapid.T, v any) []byte {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// some returns an object with some of the fields.
func some(t *rapid.T, patch bool, fields map[string]func() any) map[string]any {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if rapid.Bool().Draw(t, name) {
			out[name] = fields[name]()
		}
		if patch && rapid.IntRange(0, 19).Draw(t, "null") == 0 {
			out[name] = nil
		}
	}
	return out
}

func podOf(t *rapid.T, patch bool) any {
	word := func() any { return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "word") }
	number := func() any { return rapid.IntRange(1, 4).Draw(t, "number") }
	words := func() any {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID[string]).Draw(t, "words")
	}
	labels := func() any { return some(t, patch, map[string]func() any{"a": word, "b": word}) }
	// of returns a list of objects with a merge key.
	of := func(key string, value func() any, fields map[string]func() any) func() any {
		return func() any {
			list := []any{}
			for range rapid.IntRange(0, 4).Draw(t, "elements") {
				element := some(t, patch, fields)
				element[key] = value()
				if patch {
					switch rapid.IntRange(0, 12).Draw(t, "directive") {
					case 0, 1:
						element["$patch"] = "delete"
					case 2:
						element["$patch"] = "replace"
					}
				}
				list = append(list, element)
			}
			return list
		}
	}
	volume := map[string]func() any{
		"emptyDir": func() any { return some(t, patch, map[string]func() any{"medium": word}) },
		"hostPath": func() any { return some(t, patch, map[string]func() any{"path": word}) },
	}
	container := map[string]func() any{
		"image": word, "args": words,
		"env":          of("name", word, map[string]func() any{"value": word}),
		"ports":        of("containerPort", number, map[string]func() any{"protocol": word, "name": word}),
		"volumeMounts": of("mountPath", word, map[string]func() any{"name": word}),
		"resources":    func() any { return some(t, patch, map[string]func() any{"limits": labels}) },
	}
	spec := map[string]func() any{
		"containers": of("name", word, container), "volumes": of("name", word, volume), "priorityClassName": word, "nodeSelector": labels,
		"tolerations":      of("key", word, map[string]func() any{"value": word}),
		"hostAliases":      of("ip", word, nil),
		"imagePullSecrets": of("name", word, nil),
		"securityContext": func() any {
			return some(t, patch, map[string]func() any{"runAsUser": number, "supplementalGroups": func() any { return []any{number()} }})
		},
	}
	metadata := map[string]func() any{"name": word, "labels": labels, "finalizers": words, "ownerReferences": of("uid", word, map[string]func() any{"name": word})}
	object := func(fields map[string]func() any) func() any {
		return func() any {
			out := some(t, patch, fields)
			if patch {
				switch rapid.IntRange(0, 20).Draw(t, "directive") {
				case 0:
					out["$patch"] = "replace"
				case 1:
					out["$patch"] = "delete"
				case 2:
					out["$retainKeys"] = []any{"containers", "volumes", "labels", "finalizers"}
				case 3:
					delete(out, "finalizers") // beside it, apimachinery's order is random
					out["$deleteFromPrimitiveList/finalizers"] = []any{"a", "b"}
				}
			}
			return out
		}
	}
	return some(t, patch, map[string]func() any{"metadata": object(metadata), "spec": object(spec)})
}
