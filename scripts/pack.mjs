// Packs the tarball that is published: what `files` lists, under a manifest without the repository's own parts.
// Prints one line of JSON: the tarball's path, its files and sizes. The caller has built already.
import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** npm adds these to every package, so `files` need not list them. */
const ALWAYS = ['README.md', 'LICENSE']
/**
 * Copied into dist/ and imported from there. Its peer range lets npm put it beside any hono 4, such as a user's 4.6, which
 * lacks what it imports. In dist/ it always finds the hono of Sluice.
 */
const VENDORED = '@hono/node-server'
/** A consumer's install runs no script, and needs no tool of ours. */
const OWN = ['private', 'scripts', 'devDependencies', 'workspaces', 'allowScripts']

/** Packs into a folder; answers what npm says of the tarball, and the tarball's path. */
export function pack(folder) {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const staging = mkdtempSync(join(tmpdir(), 'sluice-pack-'))
  try {
    // npm leaves out the paths behind a `!` by itself.
    for (const path of [...manifest.files.filter((each) => !each.startsWith('!')), ...ALWAYS])
      cpSync(join(root, path), join(staging, path), { recursive: true })
    const published = Object.fromEntries(Object.entries(manifest).filter(([field]) => !OWN.includes(field)))
    vendor(root, join(staging, 'dist'))
    writeFileSync(join(staging, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
    mkdirSync(folder, { recursive: true })
    const said = execFileSync('npm', ['pack', '--json', '--pack-destination', resolve(folder)], {
      cwd: staging,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
      shell: process.platform === 'win32',
    })
    // npm 12 prints an object keyed by package name where earlier ones print a list.
    const [tarball] = Object.values(JSON.parse(said))
    return { ...tarball, manifest: published, path: resolve(folder, tarball.filename) }
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

/** Puts the modules and the licence of VENDORED into dist/vendor/, and has the one module that imports it import them. */
function vendor(root, dist) {
  const from = join(root, 'node_modules', VENDORED)
  const to = join(dist, 'vendor/node-server')
  mkdirSync(to, { recursive: true })
  const entry = readFileSync(join(from, 'dist/index.mjs'), 'utf8')
  const parts = [...entry.matchAll(/from "\.\/([^"]+)"/g)].map(([, part]) => part)
  for (const file of ['dist/index.mjs', ...parts.map((part) => `dist/${part}`), 'LICENSE', 'package.json'])
    copyFileSync(join(from, file), join(to, basename(file)))
  const importer = join(dist, 'http/listen.js')
  const text = readFileSync(importer, 'utf8')
  const vendored = text.replace(`'${VENDORED}'`, "'../vendor/node-server/index.mjs'")
  if (vendored === text) throw new Error(`dist/http/listen.js no longer imports ${VENDORED}`)
  writeFileSync(importer, vendored)
}

if (import.meta.filename === process.argv[1]) {
  const { path, files, size, unpackedSize } = pack(process.argv[2] ?? '.')
  console.log(JSON.stringify({ path, files: files.length, size, unpackedSize }))
}
