-- A view over both databases. A refresh reads what changed in either and the rows it meets, not the whole.
CREATE MATERIALIZED VIEW order_facts AS
SELECT o.id, c.name, c.city, p.name AS product, o.quantity * p.price AS amount
FROM shop.orders o
JOIN shop.products p ON p.id = o.product_id
JOIN crm.customers c ON c.id = o.customer_id;

-- A view over a view. Both are of the same state of the sources in every frame.
CREATE MATERIALIZED VIEW large_orders AS
SELECT id, name, amount FROM order_facts WHERE amount > 20;
