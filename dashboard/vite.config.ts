import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'

export default defineConfig({
  // Relative, since an application mounts the page below any prefix. The server names that prefix by <base>.
  base: './',
  plugins: [react(), tailwindcss()],
  build: {
    outDir: '../dist/dashboard/page',
    emptyOutDir: true,
    // A data: URL would need an exception in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    chunkSizeWarningLimit: 400,
  },
})
