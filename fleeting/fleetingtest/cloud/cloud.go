// Package cloud is a cloud for tests: a directory with a file for each
// instance. The plugin fleeting/fleetingtest/faulty manages it. A test reads
// and changes the directory independently of the plugin, and configures the
// plugin's faults.
package cloud

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/drover-run/drover/internal/durable"
)

// Cloud is a directory. All its methods may be called concurrently, from any
// process.
type Cloud struct{ dir string }

// Settings configure the cloud without faults.
type Settings struct {
	MaxSize     uint32        `json:"max_size"`            // that the plugin returns from Init; 0: no limit
	Quota       int           `json:"quota"`               // maximum number of instances; 0: no limit
	CreateTime  time.Duration `json:"create_time"`         // from creating to running
	DeleteTime  time.Duration `json:"delete_time"`         // from deleting to gone
	Address     string        `json:"address"`             // of every instance; "": 127.0.0.1
	Suspends    bool          `json:"suspends,omitempty"`  // the plugin has the capability
	OldProtocol bool          `json:"older,omitempty"`     // protocol without Heartbeat, Suspend, Resume and Shutdown
	NeedsKey    bool          `json:"needs_key,omitempty"` // Init uploads a key, without which Create fails
}

// Instance is a machine of the cloud.
type Instance struct {
	ID        string    `json:"id"`
	Created   time.Time `json:"created"`
	Deleted   time.Time `json:"deleted,omitzero"`
	Unhealthy bool      `json:"sick,omitempty"`
	Suspended bool      `json:"suspended,omitempty"`
}

// Outcome is how a call with a fault ends.
type Outcome string

// The ways in which a call ends.
const (
	Proceed      Outcome = ""      // as without a fault, after the delay
	Fail         Outcome = "fail"  // with an error, and without counts or lists
	Crash        Outcome = "crash" // the plugin exits with 2, without an answer
	FalseSuccess Outcome = "lie"   // as if the whole call had succeeded
	Hang         Outcome = "hang"  // blocks after its work until the call or the plugin ends
)

// All makes a call do all of its work before it fails.
const All = -1

// Fault describes the failure of a call.
type Fault struct {
	Call      string        `json:"call"` // such as Increase
	Do        int           `json:"do"`   // work to do before the failure: instances to create, delete or list; All
	Outcome   Outcome       `json:"then"`
	Delay     time.Duration `json:"delay,omitempty"`
	OnUnknown bool          `json:"on_unknown,omitempty"` // only if the call names an unknown instance
	After     int           `json:"after,omitempty"`      // the number of first calls of each plugin process that succeed
	Times     int           `json:"times,omitempty"`      // the maximum number of failures; 0: no limit
}

// Call is one call that reached the plugin.
type Call struct {
	Name      string    `json:"name"`
	N         int       `json:"n,omitempty"`
	Instances []string  `json:"instances,omitempty"`
	PID       int       `json:"pid"`
	At        time.Time `json:"at"`
}

// Open makes the directory a cloud, if it is not one yet.
func Open(dir string) (*Cloud, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "instances"), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make a cloud: %w", err)
	}
	return &Cloud{dir: dir}, nil
}

// Config returns the configuration of a plugin for the cloud.
func (c *Cloud) Config() json.RawMessage {
	text, err := json.Marshal(map[string]string{"dir": c.dir})
	if err != nil {
		return nil // encoding text cannot fail
	}
	return text
}

// Set changes the settings.
func (c *Cloud) Set(s Settings) error { return c.write("settings.json", s) }

// Settings returns the settings.
func (c *Cloud) Settings() (Settings, error) {
	var s Settings
	err := c.read("settings.json", &s)
	return s, err
}

// Inject replaces the faults.
func (c *Cloud) Inject(faults ...Fault) error {
	return c.locked(func() error { return c.write("faults.json", faults) })
}

// Instances lists the actual instances, sorted by id, independently of the
// plugin's answers.
func (c *Cloud) Instances() ([]Instance, error) {
	var all []Instance
	err := c.locked(func() (err error) {
		all, err = c.instances()
		return err
	})
	return all, err
}

// IDs lists the ids of the instances that were not deleted.
func (c *Cloud) IDs() ([]string, error) {
	all, err := c.Instances()
	var ids []string
	for _, i := range all {
		if i.Deleted.IsZero() {
			ids = append(ids, i.ID)
		}
	}
	return ids, err
}

// Appear adds an instance without a request to the plugin.
func (c *Cloud) Appear(id string) error {
	return c.locked(func() error { return c.put(Instance{ID: id, Created: time.Now()}) })
}

// Vanish removes an instance, as spot markets and operators do.
func (c *Cloud) Vanish(id string) error {
	return c.locked(func() error {
		if err := os.Remove(c.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an instance: %w", err)
		}
		return nil
	})
}

// SetUnhealthy makes the heartbeats of an instance fail.
func (c *Cloud) SetUnhealthy(id string) error {
	_, err := c.edit(id, func(i *Instance) { i.Unhealthy = true })
	return err
}

// UploadKey adds the key that Create requires. The plugin calls it.
func (c *Cloud) UploadKey() error { return c.write("key.json", true) }

// HasKey reports whether the key exists.
func (c *Cloud) HasKey() (found bool, err error) {
	err = c.read("key.json", &found)
	return found, err
}

// LoseKey removes the key, as operators do.
func (c *Cloud) LoseKey() error {
	if err := os.Remove(filepath.Join(c.dir, "key.json")); err != nil {
		return fmt.Errorf("remove the key: %w", err)
	}
	return nil
}

// Calls lists the calls of the plugin, in order.
func (c *Cloud) Calls() ([]Call, error) {
	var calls []Call
	err := c.locked(func() error {
		f, err := os.Open(filepath.Join(c.dir, "calls"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read calls: %w", err)
		}
		defer func() { _ = f.Close() }()
		for decoder := json.NewDecoder(f); decoder.More(); {
			var call Call
			if err := decoder.Decode(&call); err != nil {
				return fmt.Errorf("read calls: %w", err)
			}
			calls = append(calls, call)
		}
		return nil
	})
	return calls, err
}

// Count returns the number of calls with a name.
func (c *Cloud) Count(name string) (int, error) {
	calls, err := c.Calls()
	n := 0
	for _, call := range calls {
		if call.Name == name {
			n++
		}
	}
	return n, err
}

// Create creates an instance for the plugin, if the quota allows it.
func (c *Cloud) Create(id string) (ok bool, err error) {
	s, err := c.Settings()
	if err != nil {
		return false, err
	}
	err = c.locked(func() error {
		all, err := c.instances()
		if err != nil || (s.Quota > 0 && len(all) >= s.Quota) {
			return err
		}
		most := 0
		if err := c.read("most.json", &most); err != nil {
			return err
		}
		if err := c.write("most.json", max(most, len(all)+1)); err != nil {
			return err
		}
		ok = true
		return c.put(Instance{ID: id, Created: time.Now()})
	})
	return ok, err
}

// Most returns the largest number of instances that existed at the same time,
// counting those that are being deleted.
func (c *Cloud) Most() (n int, err error) {
	err = c.read("most.json", &n)
	return n, err
}

// Delete begins to delete an instance for the plugin.
func (c *Cloud) Delete(id string) (found bool, err error) {
	return c.edit(id, func(i *Instance) {
		if i.Deleted.IsZero() {
			i.Deleted = time.Now()
		}
	})
}

// Suspend suspends an instance for the plugin, or resumes it.
func (c *Cloud) Suspend(id string, suspended bool) (found bool, err error) {
	return c.edit(id, func(i *Instance) { i.Suspended = suspended })
}

// RecordCall records a call of the plugin.
func (c *Cloud) RecordCall(call Call) error {
	text, err := json.Marshal(call)
	if err != nil {
		return fmt.Errorf("write a call: %w", err)
	}
	return c.locked(func() error {
		f, err := os.OpenFile(filepath.Join(c.dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.Write(append(text, '\n'))
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("write a call: %w", err)
		}
		return nil
	})
}

// NextFault returns the fault of a call of the plugin, if any. earlier is the number
// of earlier calls of this name in the process, and unknown reports whether the
// call names an unknown instance.
func (c *Cloud) NextFault(call string, earlier int, unknown bool) (Fault, bool, error) {
	var found Fault
	var ok bool
	err := c.locked(func() error {
		var faults []Fault
		if err := c.read("faults.json", &faults); err != nil {
			return err
		}
		at := slices.IndexFunc(faults, func(f Fault) bool {
			return f.Call == call && earlier >= f.After && f.Times >= 0 && (unknown || !f.OnUnknown)
		})
		if at < 0 {
			return nil
		}
		found, ok = faults[at], true
		if faults[at].Times > 0 {
			if faults[at].Times--; faults[at].Times == 0 {
				faults[at].Times = -1
			}
		}
		return c.write("faults.json", faults)
	})
	return found, ok, err
}

func (c *Cloud) locked(do func() error) error {
	lock := flock.New(filepath.Join(c.dir, "lock"))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock the cloud: %w", err)
	}
	defer func() { _ = lock.Close() }()
	return do()
}

// instances lists the instances that still exist.
func (c *Cloud) instances() ([]Instance, error) {
	var s Settings
	if err := c.read("settings.json", &s); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(c.path("*"))
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	var all []Instance
	for _, path := range paths {
		var i Instance
		if err := c.read(filepath.Join("instances", filepath.Base(path)), &i); err != nil {
			return nil, err
		}
		if !i.Deleted.IsZero() && time.Since(i.Deleted) >= s.DeleteTime {
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("remove an instance: %w", err)
			}
			continue
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func (c *Cloud) edit(id string, change func(*Instance)) (found bool, err error) {
	err = c.locked(func() error {
		all, err := c.instances()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(i Instance) bool { return i.ID == id })
		if at < 0 {
			return nil
		}
		found = true
		change(&all[at])
		return c.put(all[at])
	})
	return found, err
}

func (c *Cloud) path(id string) string { return filepath.Join(c.dir, "instances", id+".json") }

func (c *Cloud) put(i Instance) error {
	return c.write(filepath.Join("instances", i.ID+".json"), i)
}

// read leaves v unchanged if the file does not exist.
func (c *Cloud) read(file string, v any) error {
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("read the cloud: %w", err)
	}
	return nil
}

func (c *Cloud) write(file string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = durable.WriteFile(filepath.Join(c.dir, file), text)
	}
	if err != nil {
		return fmt.Errorf("write to the cloud: %w", err)
	}
	return nil
}
