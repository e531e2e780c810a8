import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

// The gateway that `make web-dev` talks to. It compares the origin of a page with the host, which must stay.
const gateway = { target: process.env.DROVER_SERVER ?? 'http://127.0.0.1:8080', changeOrigin: false }

export default defineConfig({
  // Files refer to each other relatively, and the gateway completes the addresses in index.html: one build is right below every path.
  base: './',
  plugins: [react()],
  build: {
    outDir: '../gateway/ui/dist',
    emptyOutDir: true,
    // A file in the page's text would need a weaker policy than the gateway has.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2023',
    // What most pages share is one file: without it, a page is many small requests.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'common', test: /\/src\/(api|components|lib)\// }] } } },
  },
  server: {
    fs: { allow: ['.', '../examples'] }, // the templates
    proxy: { '/api': gateway, '/healthz': gateway, '/readyz': gateway, '/schemas': gateway },
  },
})
