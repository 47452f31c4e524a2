// The doors, stores and backends that need an optional package, from a project that has installed none of them.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { dependencies: object }
const project = mkdtempSync(join(tmpdir(), 'sluice-doors-'))
afterAll(() => rmSync(project, { recursive: true }))
cpSync(join(ROOT, 'src'), join(project, 'src'), { recursive: true })
cpSync(join(ROOT, 'package.json'), join(project, 'package.json'))
for (const name of Object.keys(dependencies)) {
  mkdirSync(dirname(join(project, 'node_modules', name)), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules', name), join(project, 'node_modules', name))
}

/** Runs code in the project; the code and the message of the error that it ends with. */
function errorOf(code: string): unknown {
  const file = join(project, 'main.mjs')
  writeFileSync(
    file,
    `try { ${code} } catch (error) { process.stdout.write(JSON.stringify([error.code, error.message])) }`,
  )
  return JSON.parse(execFileSync(process.execPath, [file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
}

const limiterAt = (backend: string): string => `
  const { createLimiter } = await import('./src/exports/limiter.ts')
  const { limit } = await import('./src/exports/index.ts')
  const crm = limit('crm', { rate: 1, per: '1s' })
  const limiter = createLimiter({ backend: '${backend}', limits: [crm] })
  await limiter.acquire([crm])`
const storeAt = (url: string): string => `
  const { Sluice } = await import('./src/exports/index.ts')
  await new Sluice({ store: '${url}', tasks: [] }).start()`

test.each([
  ['sluice/nats', "await import('./src/exports/nats.ts')", '@nats-io/kv'],
  ['sluice/opentelemetry', "await import('./src/exports/opentelemetry.ts')", '@opentelemetry/api'],
  [
    'sluice/opentelemetry, by require',
    "process.getBuiltinModule('module').createRequire(import.meta.url)('./src/exports/opentelemetry.ts')",
    '@opentelemetry/api',
  ],
  ['a store on PostgreSQL', storeAt('postgres://localhost/x'), 'pg'],
  ['a backend on Redis', limiterAt('redis://localhost'), 'redis'],
  ['a backend on NATS', limiterAt('nats://localhost'), '@nats-io/kv @nats-io/transport-node'],
])('%s says what to install', (_, code, packages) => {
  expect(errorOf(code)).toEqual(['package.missing', expect.stringContaining(`npm install ${packages}.`)])
})

test.each(['index', 'flows', 'limiter', 'redis', 'bullmq', 'postgres', 'http', 'dashboard', 'presets', 'testing'])(
  'sluice/%s needs none',
  (door) => expect(errorOf(`await import('./src/exports/${door}.ts'); throw { code: 'none' }`)).toEqual(['none', null]),
)
