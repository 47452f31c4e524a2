import { randomUUID } from 'node:crypto'
import { type AddressInfo, createServer } from 'node:net'
import { Pool } from 'pg'
import { expect, test } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { PostgresDatabase, type PostgresOptions } from '../../src/database/postgres.ts'
import type { Statements } from '../../src/database/statements.ts'
import { connectError, wasLost, wrapError } from '../../src/database/postgres-error.ts'
import { inTransaction } from '../../src/database/postgres-transaction.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'

/** The error that a caller gets of a statement over this address. */
async function failure(source: string, sql = 'SELECT 1'): Promise<SluiceError> {
  const db = new PostgresDatabase({ source, connections: 1, schema: 'sluice' })
  try {
    return await db.all(sql).then(
      () => expect.fail('The statement came to an end'),
      (error: unknown) => error as SluiceError,
    )
  } finally {
    await db.close()
  }
}

function address(changes: Readonly<Record<string, string>>): string {
  return Object.assign(new URL(POSTGRES_URL), { password: 'secret' }, changes).toString()
}

/** A port at which no server listens: one listened there a moment ago. */
async function deserted(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

test('where no server listens, the error has the address without the password, and the call may be repeated', async () => {
  const port = await deserted()
  const error = await failure(`postgres://app:secret@127.0.0.1:${port}/jobs`)
  expect(error).toBeInstanceOf(SluiceError)
  expect(error.code).toBe('store.io')
  expect(error.message).toContain(`at app@127.0.0.1:${port}/jobs: connect ECONNREFUSED`)
  expect(error.message).toContain('Start the server')
  expect(error.message).not.toContain('secret')
  expect(wasLost(error)).toBe(true)
})

test.each([
  ['28P01', 'password authentication failed for user "app"', 'the user or the password'],
  ['28000', 'no PostgreSQL user name specified in startup packet', 'Name a user'],
  ['53300', 'sorry, too many clients already', 'max_connections'],
  ['ENOTFOUND', 'getaddrinfo ENOTFOUND db', 'Correct the host'],
  ['28000', 'pg_hba.conf rejects connection for host "10.0.0.1", user "app", no encryption', 'sslmode='],
  ['SELF_SIGNED_CERT_IN_CHAIN', 'self-signed certificate in certificate chain', 'sslrootcert='],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'unable to verify the first certificate', 'sslrootcert='],
  ['ERR_TLS_CERT_ALTNAME_INVALID', "Hostname/IP does not match certificate's altnames", 'sslrootcert='],
  ['ERR_OSSL_X509_KEY_VALUES_MISMATCH', 'key values mismatch', 'sslcert='],
  ['ENOENT', "ENOENT: no such file or directory, open '/nowhere/ca.crt'", 'sslrootcert='],
  ['28000', 'connection requires a valid client certificate', 'sslcert='],
  ['ENOENT', 'connect ENOENT /run/.s.PGSQL.5432', 'Start the server'],
  ['', 'The server does not support SSL connections', 'sslmode='],
])('what to do about %s is said', (code, message, remedy) => {
  const error = connectError('app@db:5432/jobs', Object.assign(new Error(message), { code })) as SluiceError
  expect(error.code).toBe('store.io')
  expect(error.message).toContain(`at app@db:5432/jobs: ${message}. `)
  expect(error.message).toContain(remedy)
})

test('a pooler without transactions is told from a connection that was lost', () => {
  const cause = Object.assign(new Error('transaction blocks not allowed in statement pooling mode'), { code: '08P01' })
  const { message, lasts } = wrapError(cause) as SluiceError
  expect(message).toMatch(/^PostgreSQL refused .*statement pooling mode.*transaction or session mode/)
  expect(lasts).toBe(undefined)
})

test('a host of which no address answers is told with what each of them said', () => {
  const each = [new Error('connect ECONNREFUSED ::1:5432'), new Error('connect ECONNREFUSED 127.0.0.1:5432')]
  expect((connectError('localhost:5432/jobs', new AggregateError(each)) as SluiceError).message).toContain(
    'connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432',
  )
})

/** Two messages of PostgreSQL: the connection is ready for a query; an administrator has ended it. */
const READY = 'R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I'
const ENDED = 'SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0'

test.each(['its own pool', 'a given pool'])(
  'a connection of %s that is ended in the breath in which it is ready fails the call, not the process',
  async (whose) => {
    const server = createServer((socket) => {
      const length = Buffer.alloc(4)
      length.writeInt32BE(ENDED.length + 4)
      socket.on('error', () => {})
      socket.once('data', () => socket.end(Buffer.concat([Buffer.from(`${READY}E`), length, Buffer.from(ENDED)])))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const connectionString = `postgres://app@127.0.0.1:${(server.address() as AddressInfo).port}/jobs`
    const pool = new Pool({ connectionString })
    const db = new PostgresDatabase({
      source: whose === 'a given pool' ? pool : connectionString,
      connections: 1,
      schema: 'sluice',
    })
    try {
      const error = await db.all('SELECT 1').catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'store.io' })
      expect(wasLost(error)).toBe(true)
    } finally {
      await db.close()
      await pool.end()
      await new Promise((resolve) => server.close(resolve))
    }
  },
)

withPostgres('errors of the server', () => {
  test('a statement behind a call runs although nobody waits for it, and its error disturbs no other', async () => {
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema: 'sluice', prepares: true })
    const place = `sluice_test.p${randomUUID().replaceAll('-', '')}`
    const behind = (sql: string, value: string): Promise<unknown[]> =>
      db.session((statements) => {
        statements.behind?.(sql, place, value)
        return statements.call('SELECT 1')
      })
    expect(await behind('SELECT set_config($1, $2, false)', 'told')).toEqual([[1]])
    expect(await db.all('SELECT current_setting($1, true)', place)).toEqual([['told']])
    expect(await behind('SELECT $1 || (1 / $2::int)', '0')).toEqual([[1]])
    expect(await db.all('SELECT 2')).toEqual([[2]])
    await db.close()
  })

  test('a missing database is named, and is not asked for again and again', async () => {
    const error = await failure(address({ pathname: '/sluice_nowhere' }))
    expect(error.code).toBe('store.io')
    expect(error.message).toMatch(/\/sluice_nowhere: database "sluice_nowhere" does not exist\. Create the database/)
    expect(error.message).not.toContain('secret')
    expect(wasLost(error)).toBe(false)
  })

  test('a user that the server does not know is named', async () => {
    const error = await failure(address({ username: 'sluice_nobody' }))
    expect(error.code).toBe('store.io')
    expect(error.message).toMatch(/at sluice_nobody@.*sluice_nobody.*pg_hba\.conf/)
  })

  test('a statement that the server refuses is told with its code, and the error of pg is the cause', async () => {
    const error = await failure(POSTGRES_URL, 'SELECT 1 / 0')
    expect(error.code).toBe('store.io')
    expect(error.message).toContain('division by zero (22012)')
    expect(error.cause).toMatchObject({ code: '22012' })
  })

  test('within a transaction of the caller it is told in the same words', async () => {
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema: 'sluice' })
    const pool = new Pool({ connectionString: POSTGRES_URL, max: 1 })
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await expect(db.within(client).all('SELECT 1 / 0')).rejects.toMatchObject({ code: 'store.io' })
      await client.query('ROLLBACK')
    } finally {
      client.release()
      await pool.end()
      await db.close()
    }
  })
})

withPostgres('calls that come often', () => {
  /** Works on the only connection of a database with a function `answer` of its own. */
  async function withAnswer(
    prepares: boolean,
    work: (db: Statements) => Promise<void>,
    more: Partial<PostgresOptions> = {},
  ): Promise<void> {
    const schema = `calls_${randomUUID().slice(0, 8)}`
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema, prepares, ...more })
    try {
      await db.session(async (statements) => {
        await statements.script(`CREATE SCHEMA ${schema}; ${answering('int')}`)
        await work(statements)
      })
    } finally {
      await db.all(`DROP SCHEMA ${schema} CASCADE`)
      await db.close()
    }
  }

  function answering(type: string): string {
    return `CREATE FUNCTION sluice.answer(n int, OUT r ${type}) RETURNS SETOF ${type} LANGUAGE sql AS $f$ SELECT n::${type} $f$`
  }

  const ANSWER = 'SELECT * FROM sluice.answer($1::int)'

  async function prepared(db: Statements): Promise<unknown> {
    return (await db.get(`SELECT count(*)::int FROM pg_prepared_statements WHERE name LIKE 'sluice%'`))?.[0]
  }

  test.each([true, false])('are prepared once for a connection, if the database prepares: %s', async (prepares) => {
    await withAnswer(prepares, async (db) => {
      for (const n of [1, 2, 3]) expect(await db.call(ANSWER, n)).toEqual([[n]])
      expect(await prepared(db)).toBe(prepares ? 1 : 0)
    })
  })

  test.each([
    ['the server has forgotten them', 'DISCARD ALL', 2, 1],
    ['an upgrade changed the columns', `DROP FUNCTION sluice.answer; ${answering('text')}`, '2', 2],
  ])('go through when %s, and are prepared again', async (_, meanwhile, answer, statements) => {
    await withAnswer(true, async (db) => {
      await db.call(ANSWER, 1)
      await db.script(meanwhile)
      expect(await db.call(ANSWER, 2)).toEqual([[answer]])
      expect(await db.call(ANSWER, 2)).toEqual([[answer]])
      expect(await prepared(db)).toBe(statements)
    })
  })

  test.each([
    ['no more after the third time within a minute, as behind a pooler', 29, 0],
    ['still where that is longer', 31, 1],
  ])('are prepared %s', async (_, everyS, statements) => {
    let nowUs = 1_000_000
    await withAnswer(
      true,
      async (db) => {
        for (let times = 0; times < 4; times++) {
          expect(await db.call(ANSWER, 1)).toEqual([[1]])
          nowUs += everyS * 1_000_000
          if (times < 3) await db.script('DISCARD ALL')
        }
        expect(await prepared(db)).toBe(statements)
      },
      { times: () => [nowUs, nowUs] },
    )
  })

  test('are not prepared within a transaction, which an unknown name would end', async () => {
    await withAnswer(true, async (db) => {
      await db.call(ANSWER, 1)
      await db.script('DEALLOCATE ALL')
      expect(await inTransaction(db, (its) => its.call(ANSWER, 2))).toEqual([[2]])
    })
  })

  test('tell an error of the function as it is', async () => {
    await withAnswer(true, async (db) => {
      await expect(db.call(`${ANSWER}, (SELECT 1 / $1) x`, 0)).rejects.toMatchObject({ code: '22012' })
    })
  })
})

withPostgres('a function that an upgrade replaces', () => {
  test.each([
    [
      'while a statement that calls it waits for a table',
      'WITH called AS (SELECT "S".f() AS it) SELECT it FROM called, "S".t',
    ],
    ['while a function that calls it waits', 'SELECT "S".calls()'],
  ])('%s is called anew', async (_when, sql) => {
    const schema = `sluice_replaced_${process.pid}_${Math.trunc(performance.now())}`
    const named = (text: string): string => text.replaceAll('"S"', `"${schema}"`)
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema })
    const admin = new Pool({ connectionString: POSTGRES_URL, max: 2 })
    const body = `RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 2; END'`
    const made = `CREATE FUNCTION "S".f() ${body}; CREATE FUNCTION "S".gone() ${body}`
    const replaced = `DROP FUNCTION "S".f(), "S".gone(); CREATE FUNCTION "S".f(p int DEFAULT 2) ${body}`
    const calls = (f: string): string =>
      `CREATE OR REPLACE FUNCTION "S".calls() RETURNS int LANGUAGE plpgsql AS 'BEGIN PERFORM FROM "S".t; RETURN ${f}; END'`
    try {
      await admin.query(named(`CREATE SCHEMA "S"; CREATE TABLE "S".t AS SELECT 1; ${made}; ${calls('"S".gone()')}`))
      const holder = await admin.connect()
      await holder.query(named('BEGIN; LOCK TABLE "S".t'))
      const answer = db.autocommit((statements) => statements.all(named(sql)))
      answer.catch(() => undefined)
      const waits = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${schema}%'`
      await expect.poll(async () => (await admin.query(waits)).rowCount).toBe(1)
      await holder.query(named(`${replaced}; ${calls('"S".f(2)')}`))
      await holder.query('COMMIT')
      holder.release()
      expect(await answer).toEqual([[2]])
    } finally {
      await db.close()
      await admin.query(`DROP SCHEMA "${schema}" CASCADE`)
      await admin.end()
    }
  })
})
