import { expect, test } from 'vitest'
import { withoutPassword } from '../../src/base/text.ts'

test.each([
  ['postgres://user:pw@host/db', 'postgres://user:***@host/db'],
  ['cannot reach "postgres://user:p@w:d@host:5432/db" now', 'cannot reach "postgres://user:***@host:5432/db" now'],
  ['postgres://host/db?user=u&password=pw&x=1', 'postgres://host/db?user=u&password=***&x=1'],
  ["host=h password='a b' dbname=d", 'host=h password=*** dbname=d'],
  ["postgres://user:it's@host/db", 'postgres://user:***@host/db'],
  ['postgres://user:p w@host/db', 'postgres://user:***@host/db'],
  ['postgres://user:p"w@host/db', 'postgres://user:***@host/db'],
  ['"redis://host:6379" and "mail@host"', '"redis://host:6379" and "mail@host"'],
  ['http://localhost:80/ took 5 of a@b', 'http://localhost:80/ took 5 of a@b'],
  ['nats://token@host:4222', 'nats://***@host:4222'],
  ['postgres://user@host/db', 'postgres://user@host/db'],
  ['sqlite:./a:b@c.db', 'sqlite:./a:b@c.db'],
  ['a://b:c of\nredis://u:pw@h', 'a://b:c of\nredis://u:***@h'],
  ['a://u:p@h and b://u:q@h', 'a://u:***@h and b://u:***@h'],
])('%s is shown as %s', (text, shown) => {
  expect(withoutPassword(text)).toBe(shown)
})

// It takes milliseconds; the square of these lengths took seconds.
test.each(['a', 'a://b:c ', 'a://b:1', 'a://b:c@', 'nats://', 'password= '])(
  'a long text of %j is read in one go',
  (part) => {
    const text = part.repeat(160_000 / part.length)
    const before = process.cpuUsage()
    withoutPassword(text)
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000)
  },
)
