// Checks that the tarball npm would publish holds every file package.json points to, and nothing of the test suites.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const manifest = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'))

// --ignore-scripts: `prepare` would build again and print into the JSON. The caller has built already.
const packed = JSON.parse(
  execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    shell: process.platform === 'win32',
  }),
)
// npm 12 prints an object keyed by package name where earlier ones print a list.
const [tarball] = Object.values(packed)
const files = new Set(tarball.files.map((file) => file.path))

/** Every path in a value of `exports` or `bin`, at any depth. */
const targets = (value) => (typeof value === 'string' ? [value] : Object.values(value).flatMap(targets))

const problems = []
for (const target of [...targets(manifest.exports), ...targets(manifest.bin), 'README.md', 'LICENSE']) {
  const path = target.replace(/^\.\//, '')
  if (!files.has(path)) problems.push(`${path} is missing from the tarball`)
}
for (const path of files) {
  if (/^(test|bench|examples|scripts)\/|\.test\.|\.db$/.test(path))
    problems.push(`${path} does not belong in the tarball`)
}
const main = readFileSync(`${root}/dist/cli/main.js`, 'utf8')
if (!main.startsWith('#!/usr/bin/env node\n')) problems.push('dist/cli/main.js has no #! line, so the bin cannot run')

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
console.log(`package: ${files.size} files, ${Math.round(tarball.unpackedSize / 1024)} kB unpacked`)
