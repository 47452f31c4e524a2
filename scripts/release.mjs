// Makes a release of the version that is given: `npm run release 0.2.0`. Checks, changes the changelog and the version, commits,
// tags and packs. Publishing and pushing are left to a person; the last lines say how.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (command, ...args) => execFileSync(command, args, { cwd: root, encoding: 'utf8' }).trim()
const stop = (why) => {
  console.error(`release: ${why}`)
  process.exit(1)
}
const run = (command, ...args) => {
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) stop(`${[command, ...args].join(' ')} failed`)
}

const version = process.argv[2] ?? ''
if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) stop('give a version: npm run release 0.2.0')
if (read('git', 'status', '--porcelain') !== '') stop('the tree has changes that are not committed')
if (read('git', 'tag', '--list', `v${version}`) !== '') stop(`the tag v${version} exists`)

const path = join(root, 'CHANGELOG.md')
const changelog = readFileSync(path, 'utf8')
const entries = /^## \[Unreleased\]\n([^]*?)(?=^## |(?![^]))/m.exec(changelog)?.[1] ?? ''
if (!/^- /m.test(entries)) stop('CHANGELOG.md has no entry below "## [Unreleased]"')

run('npm', 'run', 'check')
run('npm', 'run', 'test:all')
run('npm', 'run', 'build')
run('npm', 'run', 'check:package')

const today = new Date().toISOString().slice(0, 10)
writeFileSync(path, changelog.replace('## [Unreleased]\n', `## [Unreleased]\n\n## [${version}] – ${today}\n`))
if (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version !== version)
  run('npm', 'version', version, '--no-git-tag-version', '--ignore-scripts')
run('git', 'commit', '--all', '--message', `release: ${version}`)
run('git', 'tag', '--annotate', `v${version}`, '--message', `v${version}`)
const { path: tarball } = JSON.parse(read(process.execPath, 'scripts/pack.mjs', '.'))
console.log(`
${tarball} is ready. What is left, in a workflow that may sign (provenance needs one, and a public repository):
  git push --follow-tags
  npm publish --provenance --access public ${tarball}`)
