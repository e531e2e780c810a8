import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// The gateway that `make web-dev` talks to; by default that of `drover dev`.
const gateway = process.env.DROVER_SERVER ?? 'http://127.0.0.1:8080'

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: '../gateway/ui/dist',
    emptyOutDir: true,
    // A file in the page's text would need a weaker policy than the gateway has.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2023',
  },
  server: { proxy: { '/api': gateway, '/healthz': gateway, '/readyz': gateway, '/schemas': gateway } },
})
