//go:build race

package cputime

const raceDetector = true
