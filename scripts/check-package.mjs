// Checks the tarball that would be published: what it holds, that it installs beside other versions of its own
// dependencies, that its types stand alone, that its server runs, and what an older Node says. The caller has built already.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pack } from './pack.mjs'

/** A million of it is the dashboard's page: it comes built, so that its users install nothing for it. */
const UNPACKED_BYTES = 4_410_000
/** Where a machine may have its own, older Node; npm puts the repository's first in the path. */
const OTHER_NODES = [process.env.SLUICE_OLD_NODE, '/usr/bin/node', '/usr/local/bin/node'].filter(Boolean)
const NEIGHBOURS = { hono: '4.6.0', pino: '9.0.0', zod: '3.23.8' }

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sluice-package-'))
const problems = []

/** Every path in a value of `exports` or `bin`, at any depth. */
const targets = (value) => (typeof value === 'string' ? [value] : Object.values(value).flatMap(targets))

const run = (cwd, command, args) => {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status !== 0) problems.push(`${command} ${args.join(' ')} ended with ${status}: ${stderr}${stdout}`)
  return status === 0
}

function checkContents({ manifest, files, unpackedSize }) {
  const paths = new Set(files.map((file) => file.path))
  for (const target of [...targets(manifest.exports), ...targets(manifest.bin), 'README.md', 'LICENSE']) {
    const path = target.replace(/^\.\//, '')
    if (!paths.has(path)) problems.push(`${path} is missing from the tarball`)
  }
  for (const path of paths) {
    if (/^(src|test|bench|examples|scripts)\/|\.test\.|\.db$|\.map$|(?<!\.d)\.ts$/.test(path))
      problems.push(`${path} does not belong in the tarball`)
  }
  if (unpackedSize > UNPACKED_BYTES) problems.push(`${unpackedSize} bytes unpacked, more than ${UNPACKED_BYTES}`)
  for (const field of ['scripts', 'private', 'devDependencies'])
    if (field in manifest) problems.push(`the published manifest has ${field}`)
  const main = readFileSync(join(root, 'dist/cli/main.js'), 'utf8')
  if (!main.startsWith('#!/usr/bin/env node\n')) problems.push('dist/cli/main.js has no #! line, so the bin cannot run')
}

/** A project that has the tarball and these packages installed, as a user would; null where npm refused. */
function project(name, tarball, dependencies) {
  const path = join(folder, name)
  mkdirSync(path)
  writeFileSync(join(path, 'package.json'), JSON.stringify({ name, private: true, type: 'module', dependencies }))
  return run(path, 'npm', ['install', '--no-audit', '--no-fund', tarball]) ? path : null
}

/** Runs a job through `sluice serve`: it is pushed, fetched and acknowledged. */
async function checkServer(path) {
  const main = join(path, 'node_modules/sluice/dist/cli/main.js')
  const server = spawn(process.execPath, [main, 'serve', '--store', 'sqlite:./sluice.db', '--port', '0'], { cwd: path })
  let said = ''
  server.stderr.on('data', (text) => (said += text))
  try {
    const url = await new Promise((found, failed) => {
      server.stdout.on('data', (text) => found(/listening on (\S+)/.exec(text)?.[1]))
      server.once('exit', () => failed(new Error(`sluice serve ended: ${said}`)))
    })
    const post = async (operation, body) => {
      const headers = { 'content-type': 'application/openjobspec+json' }
      const reply = await fetch(`${url}/ojs/v1/${operation}`, { method: 'POST', headers, body: JSON.stringify(body) })
      if (!reply.ok) throw new Error(`${operation} was answered ${reply.status}: ${await reply.text()}`)
      return reply.json()
    }
    await post('jobs', { type: 'mail.send', args: [{ to: 'ada' }] })
    const { jobs } = await post('workers/fetch', { queues: ['default'], worker_id: 'check' })
    await post('workers/ack', { job_id: jobs[0].id })
  } catch (error) {
    problems.push(`${path}: ${error.message}`)
  } finally {
    server.kill()
  }
}

/** Compiles a program that imports every door, with no declaration skipped: a type of a package that users lack would show. */
function checkTypes(path, manifest) {
  const doors = Object.keys(manifest.exports).filter((door) => door !== './package.json')
  const lines = doors.map((door, n) => `export * as door${n} from '${join('sluice', door)}'`)
  // Optional peers, which only their own doors import.
  const peers = Object.entries(manifest.peerDependencies).map(([name, range]) => `${name}@${range}`)
  run(path, 'npm', ['install', '--no-audit', '--no-fund', ...peers])
  writeFileSync(join(path, 'doors.ts'), `${lines.join('\n')}\n`)
  cpSync(join(root, 'node_modules/@types/node'), join(path, 'node_modules/@types/node'), { recursive: true })
  cpSync(join(root, 'node_modules/undici-types'), join(path, 'node_modules/undici-types'), { recursive: true })
  const options = [
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--types',
    'node',
    '--strict',
    '--skipLibCheck',
    'false',
  ]
  const tsc = fileURLToPath(new URL('bin/tsc', import.meta.resolve('typescript/package.json')))
  run(path, process.execPath, [tsc, '--noEmit', ...options, 'doors.ts'])
}

/** An older Node gets one line, from the command line and from each door. Answers the version that was tried, if any. */
function checkOldNode(path, manifest) {
  const versionOf = (node) => (existsSync(node) ? execFileSync(node, ['--version'], { encoding: 'utf8' }).trim() : '')
  const node = OTHER_NODES.find((each) => /^v(1\d|20|21)\./.test(versionOf(each)))
  if (!node) return 'none found'
  const calls = Object.keys(manifest.exports)
    .filter((door) => door !== './package.json')
    .map((door) => ['--input-type=module', '-e', `import '${join('sluice', door)}'`])
  for (const args of [['node_modules/sluice/dist/cli/main.js', 'serve'], ...calls]) {
    const { status, stderr, stdout } = spawnSync(node, args, { cwd: path, encoding: 'utf8' })
    if (status !== 1 || stdout !== '' || !/^Sluice needs Node 22\.16 or newer; this is Node [\d.]+\.\n$/.test(stderr))
      problems.push(`${node} ${args.join(' ')} ended with ${status} and said: ${stderr}`)
  }
  return versionOf(node)
}

const tarball = pack(folder)
checkContents(tarball)
const alone = project('alone', tarball.path, {})
const beside = project('beside', tarball.path, NEIGHBOURS)
for (const path of [alone, beside]) if (path) await checkServer(path)
if (alone) checkTypes(alone, tarball.manifest)
const old = alone ? checkOldNode(alone, tarball.manifest) : 'none'
rmSync(folder, { recursive: true, force: true })

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
const kb = (bytes) => `${Math.round(bytes / 1000)} kB`
console.log(`package: ${tarball.files.length} files, ${kb(tarball.size)} packed, ${kb(tarball.unpackedSize)} unpacked`)
console.log(
  `installed alone and beside ${Object.entries(NEIGHBOURS)
    .map((each) => each.join(' '))
    .join(', ')}; older Node: ${old}`,
)
