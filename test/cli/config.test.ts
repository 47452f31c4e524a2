// `sluice config`: what a server would use, where each value is from, and whether a server would take it.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folder, sluice } from './terminal.ts'

const ROOT = { name: 'root', token: 'admin-0123456789abc', scopes: ['admin'], tenant: '*' }

function file(content: unknown): string {
  const path = join(folder(), 'server.json')
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

async function settings(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<Record<string, [unknown, string]>> {
  const { code, out, err } = await sluice(['config', '--json', ...args], { env })
  expect(err).toBe('')
  expect(code).toBe(0)
  const lines = (JSON.parse(out) as { settings: { name: string; value: unknown; from: string }[] }).settings
  return Object.fromEntries(lines.map(({ name, value, from }) => [name, [value, from]]))
}

test('an option beats a variable, a variable beats the file, and the rest is the default', async () => {
  const path = file({ port: 9001, host: 'localhost', drainDelay: '5s', durability: 'process', bounds: { queues: 5 } })
  const env = {
    SLUICE_CONFIG: path,
    SLUICE_PORT: '9002',
    SLUICE_HOST: '::1',
    SLUICE_DRAIN_DELAY: '',
    SLUICE_LOG: 'warn',
  }
  expect(await settings(['--port', '9003'], env)).toMatchObject({
    config: [path, 'SLUICE_CONFIG'],
    store: ['sqlite:./sluice.db', 'default'],
    port: [9003, '--port'],
    host: ['::1', 'SLUICE_HOST'],
    budgets: [null, 'default'],
    drainDelay: ['5s', 'the file'],
    durability: ['process', 'the file'],
    log: ['warn', 'SLUICE_LOG'],
    tokens: [[], 'default'],
    'bounds.queues': [5, 'the file'],
    'bounds.polls': [1000, 'default'],
  })
})

test('the server itself uses the same values', async () => {
  const path = file({ port: 1, host: 'nowhere.invalid', tokens: [ROOT] })
  const { code, err } = await sluice(['serve', '--config', path], { env: { SLUICE_STORE: 'sqlite::memory:' } })
  expect([code, err]).toEqual([1, expect.stringMatching(/error server\.listen: .*nowhere\.invalid/)])
})

test('no password and no token is shown, in words or as JSON', async () => {
  const path = file({ tokens: [ROOT], limits: { crm: '15/min' }, queues: { mail: { stripes: 4 } } })
  const args = ['config', '--config', path, '--store', 'postgres://u:s3cret@h/x', '--budgets', 'redis://:s3cret@h/1']
  for (const more of [[], ['--json']]) {
    const { code, out } = await sluice([...args, ...more])
    expect(code).toBe(0)
    expect(out).not.toMatch(/s3cret|admin-0123456789abc/)
    for (const shown of ['postgres://u:***@h/x', 'redis://:***@h/1', 'root', 'limits.crm', '15/min', 'queues.mail'])
      expect(out).toContain(shown)
  }
  const { out } = await sluice(args, { env: { SLUICE_TOKENS: JSON.stringify([{ ...ROOT, name: 'env' }]) } })
  expect(out).toMatch(/^tokens +env \(admin\) +SLUICE_TOKENS$/m)
})

test('a file may begin with a mark of its order of bytes, as editors on Windows write it', async () => {
  const path = file(`\uFEFF{ "port": 4 }`)
  const tokens = file(`\uFEFF${JSON.stringify([ROOT])}`)
  const { code, out } = await sluice(['config', '--config', path], { env: { SLUICE_TOKENS_FILE: tokens } })
  expect(code).toBe(0)
  expect(out).toMatch(/^port +4 +the file$/m)
  expect(out).toMatch(/^tokens +root \(admin\) +SLUICE_TOKENS_FILE$/m)
})

test.each<[string, unknown, readonly string[], NodeJS.ProcessEnv, number, RegExp]>([
  ['a limit that is none', { limits: { c: { max: 1 } } }, [], {}, 2, /policy\.invalid/],
  ['an unknown member', { databse: 1 }, [], {}, 2, /databse/],
  ['a port of the file', { port: 70_000 }, [], {}, 2, /port of the configuration .* 0 to 65535/],
  ['a port that overflows', '{ "port": 1e999 }', [], {}, 2, /port of the configuration is invalid: "Infinity"/],
  ['a level of the environment', {}, [], { SLUICE_LOG: 'loud' }, 2, /option\.invalid: SLUICE_LOG is invalid: "loud"/],
  ['a variable without tokens', {}, [], { SLUICE_TOKENS: '[]' }, 2, /SLUICE_TOKENS holds no tokens/],
  ['a host for all without tokens', {}, ['--host', '0.0.0.0'], {}, 2, /full access/],
  ['a file that is not JSON', '{', [], {}, 2, /--config \S+ cannot be read: it is not JSON from line 1, column 2 on/],
  ['a comma too many', '{\n  "port": 1,\n}', [], {}, 2, /it is not JSON from line 3, column 1 on/],
  [
    'a name given twice',
    '{ "limits": { "crm": "1/s", "mail": "2/s", "crm": "9/s" } }',
    [],
    {},
    2,
    /option\.invalid: .*limits\.crm is there twice/,
  ],
  [
    'a name given twice in the tokens of the environment',
    {},
    [],
    { SLUICE_TOKENS: '[{ "token": "0123456789abcdef", "scopes": ["reader"], "scopes": ["admin"], "tenant": "*" }]' },
    2,
    /SLUICE_TOKENS is invalid: \[0\]\.scopes is there twice/,
  ],
  ['an option that is none', {}, ['--prot', '1'], {}, 2, /unknown option '--prot'/],
  ['a store that is none', {}, ['--store', 'mysql://h/x'], {}, 2, /store\.url\.invalid: .*mysql:/],
  ['a store of no text', {}, ['--store', ''], {}, 2, /cli\.usage: --store is empty/],
  ['a store of the file that is none', { store: 'jobs.db' }, [], {}, 2, /store\.url\.invalid: .*jobs\.db/],
  [
    'budgets at no backend',
    {},
    ['--budgets', 'http://u:s3cret@h'],
    {},
    2,
    /limiter\.url\.invalid: .*http:\/\/u:\*\*\*@h/,
  ],
  ['a store of the environment', {}, [], { SLUICE_STORE: 'mysql://h/x' }, 2, /store\.url\.invalid: .*mysql:/],
  ['a limit that is not defined', { types: { a: { limits: [{ limit: 'c' }] } } }, [], {}, 2, /the limit c/],
  ['a duration that is none', {}, ['--drain-delay', 'soon'], {}, 2, /--drain-delay/],
])('%s ends it with the reason', async (_, content, args, env, code, words) => {
  const { code: ended, out, err } = await sluice(['config', '--config', file(content), ...args], { env })
  expect(out).toBe('')
  expect(err).toMatch(words)
  expect(err).toMatch(/^error[ :].*\n(\(.*\)\n)?$/)
  expect(ended).toBe(code)
})

test('a variable that Kubernetes makes of a service of this name is no port', async () => {
  const links = {
    SLUICE_PORT: 'tcp://10.96.0.12:8080',
    SLUICE_PORT_8080_TCP_PORT: '8080',
    SLUICE_SERVICE_HOST: '10.96.0.12',
  }
  expect(await settings([], links)).toMatchObject({ port: [8080, 'default'] })
})

test.each([
  ['SLUICE_TOKEN', '[]', 'SLUICE_TOKENS'],
  ['SLUICE_BUDGET', 'memory:', 'SLUICE_BUDGETS'],
  ['SLUICE_DRAINDELAY', '5s', 'SLUICE_DRAIN_DELAY'],
])('a misspelt variable is refused: %s', async (name, text, meant) => {
  const { code, err } = await sluice(['config'], { env: { [name]: text } })
  expect([code, err]).toEqual([2, expect.stringContaining(`${name} is unknown; did you mean ${meant}?`)])
  expect((await sluice(['config'], { env: { [name]: '', SLUICE_HOME: '/x' } })).code).toBe(0)
})
