import { defineConfig } from 'vitest/config'

// With DROVER_SCREENSHOTS=FOLDER, pictures are taken instead of tests.
const screenshots = process.env.DROVER_SCREENSHOTS !== undefined

export default defineConfig({
  test: {
    include: [screenshots ? 'e2e/screenshots.ts' : 'e2e/*.e2e.ts'],
    globalSetup: 'e2e/setup.ts',
    // One browser and one server at a time, so that a small machine keeps up.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    retry: screenshots ? 0 : 2,
    // Each test that fails took three tries, and the rest of a broken server takes as long.
    bail: 3,
    // As long as patience in env.ts.
    expect: { poll: { timeout: 100_000 } },
    reporters: ['verbose', './e2e/flaky.ts'],
  },
})
