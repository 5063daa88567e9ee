// Builds into the server's package, which serves it; the names of all files but the page's carry
// a hash of what is in them.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  build: {
    outDir: "../server/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the server's policy allows no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: { proxy: { "/api": "http://127.0.0.1:8470" } },
});
