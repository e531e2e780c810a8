package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// treeFile is the size of one file of the tree, about half of which
	// compression saves.
	treeFile = 256 << 10
	// treeFiles is how many there are: together 512 MiB.
	treeFiles = 2048
)

// archives compares a workspace that is saved and restored with plain tar and
// zstd of the same tree, on the same disk.
func archives(ctx context.Context, d *dev, t *table, files int) error {
	dir, err := os.MkdirTemp("", "drover-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree := filepath.Join(dir, "tree")
	for i := range files {
		if err := writeFile(filepath.Join(tree, fmt.Sprint(i%16), fmt.Sprint(i)), uint64(i)); err != nil {
			return err
		}
	}
	usage := d.usage()
	id, _, err := d.run(ctx, fmt.Sprintf("name: archives\ngroup: /bench/archives\ntasks:\n"+
		"  save: {steps: [{save_workspace: {root: %s}}]}\n  restore: {depends: [save], steps: [{restore_workspace: {to: %s}}]}\n",
		tree, filepath.Join(dir, "restored")))
	if err != nil {
		return err
	}
	r, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	used, packed := d.usage().since(usage), filepath.Join(dir, "packed")
	for _, way := range []struct{ task, name, plain string }{
		{"save", "saved", "tar -C " + tree + " -cf - . | zstd -1 -T2 -q -o " + packed},
		{"restore", "restored", "mkdir " + dir + "/plain && zstd -dc -q " + packed + " | tar -C " + dir + "/plain -xf -"},
	} {
		step := r.Tasks[way.task].Steps[0]
		took := step.EndedAt.Sub(step.StartedAt)
		begin := time.Now()
		if out, err := exec.CommandContext(ctx, "sh", "-c", way.plain).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", way.plain, err, out)
		}
		plain := time.Since(begin)
		t.add(line{
			name:   fmt.Sprintf("a workspace of %d MiB %s; bare is tar and zstd", files*treeFile>>20, way.name),
			drover: speed(files, took), bare: speed(files, plain), ratio: ratio(took, plain), usage: used,
		})
	}
	return nil
}

func speed(files int, took time.Duration) string {
	return fmt.Sprintf("%.0f MiB/s", float64(files)*treeFile/(1<<20)/took.Seconds())
}

// writeFile writes a file of digits, that is always the same.
func writeFile(path string, seed uint64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	source, w := rand.New(rand.NewPCG(seed, seed)), bufio.NewWriter(f)
	for range treeFile / 16 {
		_, _ = fmt.Fprintf(w, "%016x", source.Uint64()) // told by Flush
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
