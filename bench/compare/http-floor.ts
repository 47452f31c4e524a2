// The floor of the HTTP rows: node:http, JSON in and out, and group commits on a synced SQLite file.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { DatabaseSync } from 'node:sqlite'

interface Asked {
  readonly options?: { readonly queue: string }
  readonly queues?: readonly string[]
  readonly job_id?: string
}

const db = new DatabaseSync(process.argv[2] ?? ':memory:')
for (const pragma of ['journal_mode=WAL', 'synchronous=FULL']) db.exec(`PRAGMA ${pragma}`)
db.exec(
  `CREATE TABLE j (id INTEGER PRIMARY KEY, s INTEGER NOT NULL, q TEXT, p TEXT); CREATE INDEX w ON j (q, id) WHERE s = 0`,
)
const insert = db.prepare('INSERT INTO j (s, q, p) VALUES (0, ?, ?) RETURNING id')
const claim = db.prepare(
  'UPDATE j SET s = 1 WHERE id = (SELECT id FROM j WHERE s = 0 AND q = ? ORDER BY id LIMIT 1) RETURNING id, p',
)
const end = db.prepare('UPDATE j SET s = 2 WHERE id = ?')

let waiting: { readonly run: () => unknown; readonly done: (answer: unknown) => void }[] = []

/** Requests that came meanwhile share a commit. */
function commit(): void {
  const together = waiting
  waiting = []
  db.exec('BEGIN IMMEDIATE')
  const answers = together.map(({ run }) => run())
  db.exec('COMMIT')
  together.forEach(({ done }, i) => done(answers[i]))
}

function inTransaction(run: () => unknown): Promise<unknown> {
  return new Promise((done) => {
    if (waiting.length === 0) setImmediate(commit)
    waiting.push({ run, done })
  })
}

function answerTo(path: string, text: string): Promise<unknown> {
  const asked = JSON.parse(text) as Asked
  if (path.endsWith('/jobs')) return inTransaction(() => insert.get(asked.options?.queue ?? '', text))
  if (path.endsWith('/ack'))
    return inTransaction(() => {
      end.run(Number(asked.job_id))
      return { ok: true }
    })
  return inTransaction(() => {
    const row = claim.get(asked.queues?.[0] ?? '') as { id: number; p: string } | undefined
    return { jobs: row ? [{ id: String(row.id), job: JSON.parse(row.p) as unknown }] : [] }
  })
}

const server = createServer((request, response) => {
  let text = ''
  request.setEncoding('utf8')
  request.on('data', (part: string) => (text += part))
  request.on('end', () => {
    void answerTo(request.url ?? '', text).then((answer) => {
      const body = JSON.stringify(answer)
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
      response.end(body)
    })
  })
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`))
