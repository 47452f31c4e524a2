-- Changes made through a server, with their authors.
CREATE TABLE sluice.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  who text NOT NULL,
  tenant text NOT NULL,
  action text NOT NULL,
  subject text NOT NULL,
  detail text NOT NULL
);
