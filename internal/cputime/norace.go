//go:build !race

package cputime

const raceDetector = false
