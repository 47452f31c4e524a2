// The function in SQL that enqueues: it refuses what an engine would, by the same rules.
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isTaskName } from '../../src/base/text.ts'
import { inexactNumber } from '../../src/base/exact-numbers.ts'
import { retryPolicy } from '../../src/jobs/retry-policy.ts'
import { checkUnits } from '../../src/policy/limits/define.ts'
import { partitionKey } from '../../src/policy/limits/partition-key.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { watchedStore } from './postgres-watched.ts'

withPostgres('sluice.enqueue in SQL', () => {
  const watched = watchedStore('sql_enqueue', 1)
  const pool = new Pool({ connectionString: POSTGRES_URL, max: 1, options: `-c search_path=${watched.schema}` })

  beforeAll(() => watched.store.open())

  afterAll(async () => {
    await pool.end()
    await watched.end()
  })

  /** Enqueues by named arguments; null: it was stored. Otherwise the code of the refusal, and what it says. */
  async function refusal(given: Readonly<Record<string, unknown>>): Promise<string | null> {
    const all = { task: 'a', ...given }
    const names = Object.keys(all).map((name, i) => `${name} => $${i + 1}`)
    try {
      await pool.query(`SELECT enqueue(${names.join()})`, Object.values(all))
      return null
    } catch (error) {
      const { code, message } = error as { code: string; message: string }
      return `${code} ${message.replace(/^.*?enqueue: /, '')}`
    }
  }

  /** Whether a function of the engine takes a value. */
  function takes(check: () => unknown): boolean {
    try {
      check()
      return true
    } catch {
      return false
    }
  }

  describe('takes what the engine takes, and nothing else', () => {
    test.each([
      'a',
      'tenant.sync',
      'a_b-c.d9',
      'x'.repeat(255),
      'x'.repeat(256),
      '',
      'A',
      '9a',
      'a.',
      '.a',
      'a..b',
      'a b',
      'a\n',
      'é',
      null,
    ])('as a task (%#)', async (task) => {
      expect((await refusal({ task })) === null).toBe(isTaskName(task))
    })

    test.each([-1, 0, 1, 10_000, 10_001, 2 ** 31 - 1])('as the most attempts: %d', async (attempts) => {
      expect((await refusal({ max_attempts: attempts })) === null).toBe(takes(() => retryPolicy({ attempts }, '')))
    })

    test.each(['1', '1000000000', '1000000001', '2.0', '0', '-1', '1.5', 'null', '"2"', 'true', '{}', '1e400'])(
      'as a weight: %s',
      async (weight) => {
        const limits = `[{"limit":"crm","weight":${weight}}]`
        expect((await refusal({ limits })) === null).toBe(takes(() => checkUnits(JSON.parse(weight), '')))
      },
    )

    test.each([
      '"acme"',
      '"0"',
      '42',
      '0',
      '-7',
      '9007199254740991',
      '""',
      'null',
      'true',
      '{}',
      '["acme"]',
      `"${'long'.repeat(300)}"`,
    ])('as a key (%#)', async (key) => {
      const limits = `[{"limit":"crm","key":${key}}]`
      const found = (): unknown => partitionKey(JSON.parse(key), 'fail', '')
      expect((await refusal({ limits })) === null).toBe(takes(found))
      if (!takes(found)) return
      const { rows } = await pool.query<{ uses: string }>('SELECT uses FROM jobs ORDER BY seq DESC LIMIT 1')
      const uses = JSON.parse(rows[0]!.uses) as [string, string][]
      expect({ kind: 'key', key: uses[0]?.[1] }).toEqual(found())
    })

    test.each([
      '9007199254740991',
      '9007199254740992',
      '9007199254740993',
      '-9007199254740993',
      '1e400',
      '-1e400',
      '1e-400',
      '0e400',
      '0.000e-999',
      '5e-324',
      '1.7976931348623157e308',
      '1.8e308',
      '1e999999999',
      '6.02e23',
      '60.2E+22',
      '123456789012345678e2',
      '9007199254740993e0',
      '9007199254740993.5',
      '0.1234567890123456789',
      '4503599627370497.5',
      `0.${'3'.repeat(20_000)}`,
      '1'.repeat(400),
      '{"a":[1,{"b":9007199254740993}]}',
      '{"a":"9007199254740993","b\\"1e400":"\\\\","c":1}',
      '{"9007199254740993":true,"b":[false,null,1e5,"1e400"]}',
      '["\\\\",1e400,"\\""]',
    ])('as numbers of the input (%#)', async (input) => {
      expect((await refusal({ input })) === null).toBe(inexactNumber(input) === null)
    })
  })

  test.each([
    [{ task: 'Mail' }, "task is invalid: 'Mail'. Expected lower case words with dots between them."],
    [{ queue: 'Q' }, "queue is invalid: 'Q'. Expected 1 to 128 lower case letters, digits, dots and hyphens."],
    [{ queue: null }, 'queue is invalid: NULL. Expected 1 to 128 lower case letters, digits, dots and hyphens.'],
    [{ priority: 101 }, "priority is invalid: '101'. Expected -100 to 100."],
    [{ max_attempts: 0 }, "max_attempts is invalid: '0'. Expected 1 (no retry) to 10000."],
    [{ run_at: '2200-01-01Z' }, 'run_at and expires_at must be before 2200-01-01.'],
    [{ limits: '{}' }, 'limits is invalid: {}. Expected a list such as [{"limit":"crm","key":"acme"}].'],
    [{ limits: 'null' }, 'limits is invalid: null. Expected a list such as [{"limit":"crm","key":"acme"}].'],
    [{ limits: '["crm"]' }, 'limits has an invalid entry: "crm". Expected an object with limit, key and weight.'],
    [
      { limits: '[{"limit":"a"},{"limit":"crm","kye":"acme"}]' },
      'limits has an invalid entry: {"limit":"crm","kye":"acme"}. Expected no members but limit, key and weight.',
    ],
    [
      { limits: '[{"limit":"crm","wieght":2}]' },
      'limits has an invalid entry: {"limit":"crm","wieght":2}. Expected no members but limit, key and weight.',
    ],
    [
      { limits: '[{"key":"acme"}]' },
      'limits has an invalid entry: {"key":"acme"}. Expected limit to be a text of 1 to 255 characters.',
    ],
    [
      { limits: '[{"limit":"crm","key":1.50}]' },
      'limits has an invalid entry: {"limit":"crm","key":1.50}. Expected key to be a text or a whole number, or no key at all.',
    ],
    [
      { limits: '[{"limit":"crm","weight":1.5}]' },
      'limits has an invalid entry: {"limit":"crm","weight":1.5}. Expected weight to be a whole number from 1 to 1000000000.',
    ],
    [{ limits: '[{"limit":"crm","key":"7"},{"limit":"crm","key":7}]' }, 'limits names "crm" twice with the same key.'],
    [
      { input: '{"id":9007199254740993}' },
      'input is invalid: 9007199254740993 cannot be kept exactly. Expected a text, or a whole number up to 9007199254740991.',
    ],
  ])('says what is wrong and what it expects: %j', async (given, message) => {
    expect(await refusal(given)).toBe(`22023 ${message}`)
  })

  test('takes an empty list, and several limits with and without a key', async () => {
    expect(await refusal({ limits: '[]' })).toBeNull()
    expect(await refusal({ limits: '[{"limit":"crm"},{"limit":"crm","key":"acme","weight":2}]' })).toBeNull()
    const { rows } = await pool.query('SELECT uses, weights FROM jobs ORDER BY seq DESC LIMIT 2')
    expect(rows).toEqual([
      { uses: '[["crm",""],["crm","acme"]]', weights: '[1,2]' },
      { uses: null, weights: null },
    ])
  })
})
